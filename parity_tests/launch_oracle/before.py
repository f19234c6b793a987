"""What became of a document before schemes were resolved: only the legacy depth `nextn` was read."""

from __future__ import annotations

from dataclasses import dataclass

from .documents import Document, canonical_config
from .rules import (
    MAX_DEPTH,
    Refused,
    check_config,
    check_launch_fields,
    check_rank,
    check_topology,
    refuse_if,
    speculates,
)


@dataclass(frozen=True)
class Before:
    """`outcome` is accept, reject or None for not known; `code` is None also where a refusal's class is not known."""

    outcome: str | None
    code: str | None
    aic_nextn: int | None
    why: str


def before(document: Document) -> Before:
    """The outcome before; `why` says what decided it."""
    config = canonical_config(document)
    engine = document["engine"]
    nextn = 0 if config is None else config.get("nextn", 0)
    block = (config or {}).get("speculation") or {}
    if block.get("kind") == "ngram":
        return Before("reject", None, None, "every ngram was refused at launch; the class of the refusal is not known")
    if nextn > MAX_DEPTH:
        return Before(
            "reject", None, None, "nextn or the aic_nextn copied from it was refused; which first is not known"
        )
    in_force = engine.get("aic_nextn", nextn or None)  # a null was a value: nothing was inferred then
    try:
        check_rank(engine, in_force or 0)
        check_launch_fields(document)
        if config is not None:
            check_config(config)
            check_topology(document, config)
            compared = f"nextn {nextn} was compared with aic_nextn {in_force}"
            refuse_if(nextn != (in_force or 0), "E_DEPTH_CONFLICT", compared)
    except Refused as refusal:
        return Before("reject", refusal.code, None, str(refusal))
    if speculates(config):
        why = "the depth would be lost, since nextn is 0; whether acceptance or capacity were asked for is not known"
        return Before(None, None, None, why)
    if block.get("kind") == "none" and set(block) | set(block["params"]) != {"kind", "params"}:
        return Before(None, None, None, "whether fields that none has no use for were looked at is not known")
    return Before("accept", None, in_force, "read from nextn and aic_nextn alone")
