"""Complete canonical launch documents, and the reading of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Document = dict[str, Any]

BACKENDS = ("vllm", "sglang", "trtllm")
ROLES = ("aggregated", "prefill", "decode")
VERSIONS = {"vllm": "0.19.0", "sglang": "0.5.10", "trtllm": "1.3.0rc10"}
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
SYSTEM = "h200_sxm"
BLOCKS = 4096
DEFAULT_BLOCKS = 16384
ABSENT: Final = "absent"
"""Stands for a key that is not there, where null is a value of its own."""


def launch_document(
    backend: str,
    role: str,
    *,
    speculation: Mapping[str, Any] | None = None,
    nextn: int = 0,
    aic_nextn: int | str | None = ABSENT,
    rates: str = ABSENT,
    blocks: int | str | None = BLOCKS,
    explicit: bool | str = ABSENT,
    provider: str = "ais",
    timing: Mapping[str, Any] | None = None,
    canonical: Mapping[str, Any] | None = None,
    engine: Mapping[str, Any] | None = None,
    launch: Mapping[str, Any] | None = None,
) -> Document:
    """One document: external timing with a canonical configuration unless `timing` says otherwise.

    `canonical`, `engine` and `launch` set further keys of these three objects, or other values.
    """
    config: Document = {
        "model": MODEL,
        "system": SYSTEM,
        "backend": backend,
        "backend_version": VERSIONS[backend],
        "worker_type": role,
        "tp": 1,
        "pp": 1,
        "attention_dp": 1,
        "nextn": nextn,
        "estimation_mode": "op_level",
    }
    if speculation is not None:
        config["speculation"] = dict(speculation)
    config |= canonical or {}
    rank: Document = {"backend": backend, "worker_type": role}
    authored = {"num_gpu_blocks": blocks, "aic_nextn": aic_nextn, "aic_nextn_accept_rates": rates}
    rank |= {name: value for name, value in authored.items() if value != ABSENT}
    rank["timing_model"] = dict(timing) if timing else {"kind": "external", "provider": provider, "config": config}
    rank |= engine or {}
    document: Document = {"engine": rank, **(launch or {})}
    if explicit != ABSENT:
        document["num_gpu_blocks_is_explicit"] = explicit
    return document


def canonical_config(document: Document) -> Document | None:
    """The canonical configuration behind external timing of the two providers that have one."""
    timing = document["engine"].get("timing_model", {"kind": "polynomial"})
    if timing["kind"] != "external" or timing["provider"] not in ("ais", "aic"):
        return None
    config: Document = timing["config"]
    return config
