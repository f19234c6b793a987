"""What a launch document resolves to: accepted with its numbers, or refused with one code, in the order of checks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .acceptance import DEFAULT_RATES, MalformedRates, blank, pad_or_cut, parse_rates
from .depths import SCHEMES, Checkpoint, Draft, DraftFault, NeedsCheckpoint, chain, draft_of
from .documents import BACKENDS, DEFAULT_BLOCKS, ROLES, Document, canonical_config

MAX_DEPTH = 5
"""The deepest speculation that an engine replays."""

MODES = ("auto", "op_level", "fpm_interpolation", "fpm_regression")
FRACTIONS = ("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction")


class Refused(Exception):
    """The launch is refused with a code."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Launch:
    """The numbers of an accepted launch."""

    depth: int
    decode_width: int
    tree: bool
    aic_nextn: int | None
    acceptance_rates: list[float]
    num_gpu_blocks: int
    explicit: bool


def refuse_if(wrong: bool, code: str, reason: str) -> None:
    if wrong:
        raise Refused(code, reason)


def positive(value: object) -> bool:
    return type(value) is int and value > 0


def number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(float(value))  # type: ignore[arg-type]


def draft_in(config: Document | None) -> Draft:
    """What a canonical configuration drafts, by its speculation block or its legacy depth."""
    if config is None:
        return chain(0)
    block = config.get("speculation")
    if block is None:
        return chain(config.get("nextn", 0))
    checkpoint = Checkpoint(block.get("draft_model_path"), block.get("draft_config"))
    return draft_of(block["kind"], block.get("params", {}), checkpoint)


def told_draft(document: Document) -> Draft | None:
    """What the canonical configuration drafts, or None where it does not say."""
    try:
        return draft_in(canonical_config(document))
    except (DraftFault, NeedsCheckpoint):
        return None


def replayable(draft: Draft) -> bool:
    return 0 <= draft.depth <= MAX_DEPTH and not draft.tree and draft.verify_width == draft.depth + 1


def speculates(config: Document | None) -> bool:
    """Whether the canonical configuration names a scheme that drafts."""
    return config is not None and config.get("speculation") is not None and config["speculation"]["kind"] != "none"


def check_rank(engine: Document, depth: int | None) -> None:
    """The engine alone; `depth` is the one in force, or None where that is for later checks to refuse."""
    code = "E_ENGINE"
    refuse_if(engine["backend"] not in BACKENDS, code, "backend")
    refuse_if(engine["worker_type"] not in ROLES, code, "worker_type")
    refuse_if(not positive(engine.get("num_gpu_blocks", DEFAULT_BLOCKS)), code, "num_gpu_blocks")
    authored = engine.get("aic_nextn")
    refuse_if(authored is not None and not (positive(authored) and authored <= MAX_DEPTH), code, "aic_nextn")
    ratio = engine.get("decode_speedup_ratio", 1.0)
    refuse_if(not number(ratio) or ratio < 0, code, "decode_speedup_ratio")
    rates = engine.get("aic_nextn_accept_rates")
    if not blank(rates):
        try:
            parse_rates(rates)
        except MalformedRates as fault:
            raise Refused(code, f"aic_nextn_accept_rates: {fault}") from fault
        refuse_if(depth == 0, code, "acceptance rates without a depth")
    if depth is not None and depth > 0:
        refuse_if(ratio != 1.0, code, "decode_speedup_ratio with a depth")
        refuse_if(bool(engine.get("kv_cache_groups")), code, "kv_cache_groups with a depth")
        refuse_if(engine.get("native_host_offload") is not None, code, "native_host_offload with a depth")


def check_launch_fields(document: Document) -> None:
    code = "E_LAUNCH_FIELD"
    for name in ("dp_size", "tensor_parallel_size"):
        refuse_if(not positive(document.get(name, 1)) or document.get(name, 1) >= 2**32, code, name)
    startup = document.get("startup_time")
    refuse_if(startup is not None and not (number(startup) and startup >= 0), code, "startup_time")
    for name in FRACTIONS:
        fraction = document.get(name)
        refuse_if(fraction is not None and not (number(fraction) and 0 <= fraction <= 1), code, name)


def check_config(config: Document) -> None:
    """The canonical configuration alone, without what its scheme says."""
    code = "E_PERF_CONFIG"
    for name in ("model", "system"):
        refuse_if(blank(config.get(name)), code, name)
    version = config.get("backend_version")
    refuse_if(version is not None and blank(version), code, "backend_version")
    for name in ("tp", "pp", "attention_dp"):
        refuse_if(not positive(config.get(name, 1)), code, name)
    nextn = config.get("nextn", 0)
    refuse_if(type(nextn) is not int or not 0 <= nextn <= MAX_DEPTH, code, "nextn")
    mode = config.get("estimation_mode", "auto")
    refuse_if(mode not in MODES, code, "estimation_mode")
    refuse_if(mode == "fpm_interpolation" and nextn != 0, code, "fpm_interpolation with a depth")
    block = config.get("speculation")
    if block is not None:
        refuse_if(nextn != 0, code, "nextn and speculation as well")
        refuse_if(blank(block["kind"]), code, "blank kind")
        refuse_if(mode not in ("auto", "op_level"), code, "estimation_mode with speculation")


def check_topology(document: Document, config: Document) -> None:
    """Parallelism and role must be the same on both sides; an absent launch field takes the canonical value."""
    refuse_if(config.get("pp", 1) != 1, "E_TOPOLOGY", "pp")
    for ours, theirs in (("tensor_parallel_size", "tp"), ("dp_size", "attention_dp")):
        canonical = config.get(theirs, 1)
        refuse_if(document.get(ours, canonical) != canonical, "E_TOPOLOGY", ours)
    refuse_if(config["worker_type"] != document["engine"]["worker_type"], "E_ROLE", "worker_type")


def check_draft(config: Document, backend: str) -> Draft:
    """The replayable draft of a canonical configuration that `check_config` passed."""
    try:
        draft = draft_in(config)
    except DraftFault as fault:
        raise Refused(fault.code, str(fault)) from fault
    except NeedsCheckpoint:
        draft = None
    if speculates(config):
        refuse_if(backend not in SCHEMES[config["speculation"]["kind"]].backends, "E_BACKEND", backend)
    if draft is None:
        raise Refused("E_RUNTIME", "the depth stands in a checkpoint that nothing here can read")
    refuse_if(draft.tree or draft.verify_width != draft.depth + 1, "E_TREE", f"verifies {draft.verify_width}")
    shallowest = 1 if speculates(config) else 0
    refuse_if(not shallowest <= draft.depth <= MAX_DEPTH, "E_RANGE", f"depth {draft.depth}")
    return draft


def resolve(document: Document) -> Launch:
    """The numbers of an accepted launch; raises `Refused` with the first code in order otherwise."""
    engine = document["engine"]
    config = canonical_config(document)
    authored = engine.get("aic_nextn")
    told = told_draft(document)
    in_force = None if told is None or not replayable(told) else told.depth
    drafts_nothing_sound = config is not None and speculates(config) and in_force == 0
    check_rank(engine, authored if authored is not None else None if drafts_nothing_sound else in_force)
    check_launch_fields(document)
    depth = authored or 0
    if config is not None:
        check_config(config)
        check_topology(document, config)
        depth = check_draft(config, engine["backend"]).depth
        refuse_if(authored is not None and authored != depth, "E_DEPTH_CONFLICT", f"{authored} against {depth}")
    rates = acceptance(engine.get("aic_nextn_accept_rates"), depth, exactly=speculates(config))
    authored_blocks = engine.get("num_gpu_blocks")
    explicit = authored_blocks is not None and document.get("num_gpu_blocks_is_explicit", True)
    refuse_if(speculates(config) and not explicit, "E_CAPACITY", "inferred capacity under speculation")
    blocks = DEFAULT_BLOCKS if authored_blocks is None else authored_blocks
    return Launch(depth, depth + 1, False, depth or None, rates, blocks, explicit)


def acceptance(text: Any, depth: int, *, exactly: bool) -> list[float]:
    """The rates in force: authored and exactly `depth` under a scheme, else padded, cut or the default."""
    if depth == 0:
        return []
    if blank(text):
        refuse_if(exactly, "E_ACCEPT_MISSING", "no acceptance rates")
        return pad_or_cut(DEFAULT_RATES, depth)
    rates = parse_rates(text)
    refuse_if(exactly and len(rates) != depth, "E_ACCEPT_INVALID", f"{len(rates)} rates for depth {depth}")
    return pad_or_cut(rates, depth)
