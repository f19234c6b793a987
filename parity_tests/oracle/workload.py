"""What an iteration is to the forecaster: its kind, its two load features and its measured duration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .record import InvalidRecord, RankRecord, check_record

IDLE = "idle"
PURE_PREFILL = "pure_prefill"
PURE_DECODE = "pure_decode"
LOCALLY_MIXED = "contains_locally_mixed"
CROSS_RANK = "cross_rank_aggregated"

ROLES = ("prefill", "decode", "aggregated")
LONGEST_DURATION_S = 3600.0

Features = tuple[float, float]


@dataclass(frozen=True)
class Weights:
    """Dimensionless weights of the terms of the two features."""

    attention_kv: float = 1.0
    prefill_attention_pair: float = 1.0
    ffn_token: float = 1.0


UNIT_WEIGHTS = Weights()


class RejectedObservation(ValueError):
    """An observation that must leave the forecaster as it was; `reason` is what is counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def check_iteration(ranks: Sequence[RankRecord], role: str) -> None:
    """Raise `InvalidRecord` where the rank set is empty, a record is wrong or the role cannot run the work."""
    if role not in ROLES:
        raise InvalidRecord(f"role is {role!r}, expected one of {ROLES}")
    if not ranks:
        raise InvalidRecord("an iteration needs at least one rank")
    for rank in ranks:
        check_record(rank)
        if role == "prefill" and rank.num_decode_requests > 0:
            raise InvalidRecord("num_decode_requests is positive on a prefill worker")
        if role == "decode" and rank.sum_prefill_tokens > 0:
            raise InvalidRecord("sum_prefill_tokens is positive on a decode worker")


def kind_of(ranks: Sequence[RankRecord]) -> str:
    """Kind of the iteration; prefill needs fresh tokens, decode needs requests, other ranks say nothing."""
    prefills = [rank.sum_prefill_tokens > 0 for rank in ranks]
    decodes = [rank.num_decode_requests > 0 for rank in ranks]
    if not any(prefills) and not any(decodes):
        return IDLE
    if not any(prefills):
        return PURE_DECODE
    if not any(decodes):
        return PURE_PREFILL
    if any(prefill and decode for prefill, decode in zip(prefills, decodes, strict=True)):
        return LOCALLY_MIXED
    return CROSS_RANK


def prefill_attention_pairs(rank: RankRecord) -> float:
    """Query-key pairs of the rank's prefill, as if its requests were all alike; 0 without fresh tokens."""
    if rank.sum_prefill_tokens == 0:
        return 0.0
    fresh = float(rank.sum_prefill_tokens)
    cached = float(rank.sum_prefill_kv_tokens)
    requests = float(rank.num_prefill_requests)
    return cached * fresh / requests + fresh * fresh / (2.0 * requests) + fresh / 2.0


def features_of(ranks: Sequence[RankRecord], role: str, weights: Weights = UNIT_WEIGHTS) -> Features:
    """The attention feature (largest score of one rank) and the FFN feature (tokens of all ranks)."""
    attention = 0.0
    tokens = 0.0
    for rank in ranks:
        prefill_kv = float(rank.sum_prefill_kv_tokens) if rank.sum_prefill_tokens > 0 else 0.0
        decode_kv = float(rank.sum_decode_kv_tokens)
        pairs = prefill_attention_pairs(rank)
        if role == "prefill":
            score = weights.attention_kv * prefill_kv + weights.prefill_attention_pair * pairs
            rank_tokens = float(rank.sum_prefill_tokens)
        elif role == "decode":
            score = weights.attention_kv * decode_kv
            rank_tokens = float(rank.num_decode_requests)
        else:
            score = weights.attention_kv * (prefill_kv + decode_kv) + weights.prefill_attention_pair * pairs
            rank_tokens = float(rank.sum_prefill_tokens) + float(rank.num_decode_requests)
        if not math.isfinite(score):
            raise InvalidRecord("the attention feature is not finite")
        attention = max(attention, score)
        tokens += rank_tokens
    ffn = weights.ffn_token * tokens
    if not math.isfinite(ffn) or attention < 0.0 or ffn < 0.0:
        raise InvalidRecord("a feature is negative or not finite")
    return attention, ffn


def duration_ms(ranks: Sequence[RankRecord]) -> float:
    """Milliseconds of the slowest rank with a usable clock; raise `RejectedObservation` where there is none."""
    usable = [rank.wall_time_s for rank in ranks if math.isfinite(rank.wall_time_s) and rank.wall_time_s > 0.0]
    if not usable:
        raise RejectedObservation("no_positive_time")
    if max(usable) > LONGEST_DURATION_S:
        raise RejectedObservation("implausible_duration")
    return 1000.0 * max(usable)
