"""The record of one attention-DP rank in one engine iteration, with the checks that a record must pass."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 1


class InvalidRecord(ValueError):
    """A record, or a set of rank records, that the forecaster must refuse."""


@dataclass(frozen=True)
class RankRecord:
    """Counters of one rank: requests and tokens are counts, `wall_time_s` is in seconds."""

    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    sum_prefill_kv_tokens: int = 0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    wall_time_s: float = 0.0
    worker_id: str = ""
    version: int = SCHEMA_VERSION


def check_record(record: RankRecord) -> None:
    """Raise `InvalidRecord` for another schema version, or for tokens that belong to no request."""
    if record.version != SCHEMA_VERSION:
        raise InvalidRecord(f"version is {record.version}, expected {SCHEMA_VERSION}")
    prefill_work = record.sum_prefill_tokens > 0 or record.sum_prefill_kv_tokens > 0
    if prefill_work and record.num_prefill_requests == 0:
        raise InvalidRecord("sum_prefill_tokens or sum_prefill_kv_tokens is positive but num_prefill_requests is 0")
    if record.sum_decode_kv_tokens > 0 and record.num_decode_requests == 0:
        raise InvalidRecord("sum_decode_kv_tokens is positive but num_decode_requests is 0")
