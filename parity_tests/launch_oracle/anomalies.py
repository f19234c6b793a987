"""What is wrong with the depths that a launch document authors, whatever is decided on it."""

from __future__ import annotations

from .depths import DraftFault, NeedsCheckpoint
from .documents import Document, canonical_config
from .rules import MAX_DEPTH, draft_in, speculates

DEPTH_SPELLINGS = frozenset({"depth", "num_speculative_tokens", "num_draft_tokens", "tree_shape"})


def anomalies_in(document: Document) -> list[str]:
    """The names of a document's anomalies, sorted."""
    config = canonical_config(document) or {}
    authored = document["engine"].get("aic_nextn")
    nextn = config.get("nextn", 0)
    found = set()
    depths = {authored} if authored is not None else set()
    try:
        drafted = draft_in(config or None)
        if drafted.tree or drafted.verify_width != drafted.depth + 1:
            found.add("tree")
        if config:
            depths.add(drafted.depth)
        if speculates(config) and drafted.depth == 0:
            found.add("depth_out_of_range")
    except DraftFault as fault:
        found.add(fault_class(fault, config["speculation"]))
    except NeedsCheckpoint:
        found.add("depth_missing")
    if authored == 0 or any(not 0 <= depth <= MAX_DEPTH for depth in depths):
        found.add("depth_out_of_range")
    if len(depths) > 1 or (config.get("speculation") is not None and nextn != 0) or spellings_differ(config):
        found.add("depth_conflicting")
    return sorted(found)


def fault_class(fault: DraftFault, block: Document) -> str:
    if fault.code == "E_KIND":
        return "scheme_unknown"
    if spells_depth(block) or block["kind"] == "none":
        return "parameter_invalid"
    return "depth_missing"


def spells_depth(block: Document) -> bool:
    return not DEPTH_SPELLINGS.isdisjoint(block["params"])


def spellings_differ(config: Document) -> bool:
    """Whether one block spells two depths, of which it can mean only one."""
    params = (config.get("speculation") or {}).get("params", {})
    spelled = {params[name] for name in ("depth", "num_speculative_tokens") if name in params}
    if "tree_shape" in params and "num_speculative_tokens" in params:
        spelled.add(len(params["tree_shape"]))
    return len(spelled) > 1
