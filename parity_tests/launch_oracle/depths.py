"""How many tokens each speculation scheme drafts and verifies, as a closed-form table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Params = Mapping[str, object]


@dataclass(frozen=True)
class Draft:
    """What one decoding step of a scheme does: `depth` drafted tokens at most, `verify_width` verified positions."""

    depth: int
    verify_width: int
    tree: bool


@dataclass(frozen=True)
class Checkpoint:
    """What a speculation block says of its draft model."""

    path: str | None = None
    config: Mapping[str, object] | None = None

    @property
    def named(self) -> bool:
        return self.path is not None or self.config is not None


class DraftFault(Exception):
    """A speculation block that no depth can be read from."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class NeedsCheckpoint(Exception):
    """A sound block whose depth stands in a checkpoint that only its path names."""


def chain(depth: int) -> Draft:
    """A chain verifies each drafted token and the one the target gives anyway."""
    return Draft(depth, depth + 1, tree=False)


def integer(value: object, name: str) -> int:
    """An integer as written: neither a bool, nor text, nor a float however whole."""
    if type(value) is not int:
        raise DraftFault("E_PARAM", f"{name} is not an integer: {value!r}")
    return value


def required(params: Params, name: str) -> int:
    if name not in params:
        raise DraftFault("E_PARAM", f"{name} is missing")
    return integer(params[name], name)


def refuse_draft(checkpoint: Checkpoint) -> None:
    if checkpoint.named:
        raise DraftFault("E_PARAM", "the scheme drafts without a draft model")


def none(_: Params, checkpoint: Checkpoint) -> Draft:
    refuse_draft(checkpoint)
    return chain(0)


def mtp(params: Params, checkpoint: Checkpoint) -> Draft:
    refuse_draft(checkpoint)
    spellings = {integer(params[name], name) for name in ("depth", "num_speculative_tokens") if name in params}
    if len(spellings) != 1:
        raise DraftFault("E_PARAM", "depth is missing" if not spellings else "two depths disagree")
    return chain(spellings.pop())


def ngram(params: Params, checkpoint: Checkpoint) -> Draft:
    refuse_draft(checkpoint)
    if params.get("trigger_rate", 1.0) != 1.0:
        raise DraftFault("E_PARAM", "trigger_rate other than 1.0")
    return chain(required(params, "num_speculative_tokens"))


def eagle3(params: Params, checkpoint: Checkpoint) -> Draft:
    if not checkpoint.named:
        raise DraftFault("E_PARAM", "the draft model is missing")
    count = integer(params.get("num_speculative_tokens", 3), "num_speculative_tokens")
    depth, positions, tree = count, count + 1, False
    shape = params.get("tree_shape")
    if shape is not None:
        if not isinstance(shape, list):
            raise DraftFault("E_PARAM", "tree_shape is not a list")
        widths = [integer(width, "tree_shape") for width in shape]
        depth, positions, tree = len(widths), sum(widths) + 1, any(width > 1 for width in widths)
        if "num_speculative_tokens" in params and count != depth:
            raise DraftFault("E_PARAM", "the count and the levels of the tree disagree")
    return Draft(depth, integer(params.get("verify_token_budget", positions), "verify_token_budget"), tree)


def draft_model(params: Params, checkpoint: Checkpoint) -> Draft:
    depth = required(params, "num_speculative_tokens")
    if checkpoint.path is None:
        raise DraftFault("E_PARAM", "the draft model's path is missing")
    return chain(depth)


def block(params: Params, checkpoint: Checkpoint, undrafted: int) -> Draft:
    """A block drafted at once: as many tokens as told, else the checkpoint's block less its undrafted positions."""
    if "num_draft_tokens" in params:
        return chain(integer(params["num_draft_tokens"], "num_draft_tokens"))
    if checkpoint.config is not None:
        return chain(required(checkpoint.config, "block_size") - undrafted)
    if checkpoint.path is not None:
        raise NeedsCheckpoint
    raise DraftFault("E_PARAM", "neither num_draft_tokens nor a draft model")


def dflash(params: Params, checkpoint: Checkpoint) -> Draft:
    return block(params, checkpoint, undrafted=1)


def dspark(params: Params, checkpoint: Checkpoint) -> Draft:
    return block(params, checkpoint, undrafted=0)


@dataclass(frozen=True)
class Scheme:
    """The closed form of one kind, the parameters it knows and the backends that run it."""

    draft: Callable[[Params, Checkpoint], Draft]
    params: frozenset[str]
    backends: frozenset[str]


VLLM = frozenset({"vllm"})
BOTH = frozenset({"vllm", "sglang"})

SCHEMES = {
    "none": Scheme(none, frozenset(), BOTH | {"trtllm"}),
    "mtp": Scheme(mtp, frozenset({"depth", "num_speculative_tokens"}), BOTH),
    "ngram": Scheme(ngram, frozenset({"num_speculative_tokens", "trigger_rate"}), VLLM),
    "eagle3": Scheme(eagle3, frozenset({"num_speculative_tokens", "tree_shape", "verify_token_budget"}), BOTH),
    "draft_model": Scheme(draft_model, frozenset({"num_speculative_tokens", "draft_tp_size"}), VLLM),
    "dflash": Scheme(dflash, frozenset({"num_draft_tokens"}), VLLM),
    "dspark": Scheme(dspark, frozenset({"num_draft_tokens", "num_draft_layers"}), BOTH),
}


def draft_of(kind: str, params: Params, checkpoint: Checkpoint) -> Draft:
    """What a scheme drafts.

    Raises `DraftFault` where the block is wrong, `NeedsCheckpoint` where it is right and too short to tell.
    """
    scheme = SCHEMES.get(kind)
    if scheme is None:
        raise DraftFault("E_KIND", f"no scheme is called {kind!r}")
    unknown = sorted(set(params) - scheme.params)
    if unknown:
        raise DraftFault("E_PARAM", f"unknown parameters {unknown}")
    return scheme.draft(params, checkpoint)
