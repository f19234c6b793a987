"""Every authored scheme with the outcome that each backend gives it, and the sound ones of depth 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .cells import ACCEPT, Cell, everywhere, rates_of
from .documents import ABSENT, BACKENDS, launch_document

Block = dict[str, Any]
Triple = tuple[str, str, str]
Stars = tuple[bool, bool, bool]

SECTION = "schemes"
NO_STARS = (False, False, False)
REFUSED_PARAM = ("E_PARAM", "E_PARAM", "E_PARAM")
REFUSED_CONFIG = ("E_PERF_CONFIG", "E_PERF_CONFIG", "E_PERF_CONFIG")
VLLM_ONLY = (ACCEPT, "E_BACKEND", "E_BACKEND")
VLLM_AND_SGLANG = (ACCEPT, ACCEPT, "E_BACKEND")
EAGLE_DRAFT = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
DRAFT_PATH = "/checkpoints/draft"


def block(kind: str, params: Mapping[str, Any], path: str | None = None, config: Block | None = None) -> Block:
    """A speculation block; absent draft fields are left out."""
    written: Block = {"kind": kind, "params": dict(params)}
    if path is not None:
        written["draft_model_path"] = path
    if config is not None:
        written["draft_config"] = config
    return written


def eagle3(**params: Any) -> Block:
    return block("eagle3", params, config=EAGLE_DRAFT)


def of_block_size(kind: str, size: int, **params: Any) -> Block:
    return block(kind, params, config={"block_size": size})


SOUND: dict[str, Block] = {
    "ngram": block("ngram", {"num_speculative_tokens": 3}),
    "mtp": block("mtp", {"num_speculative_tokens": 3}),
    "eagle3": eagle3(num_speculative_tokens=3),
    "draft_model": block("draft_model", {"num_speculative_tokens": 3}, DRAFT_PATH),
    "dflash": of_block_size("dflash", 16, num_draft_tokens=3),
    "dspark": of_block_size("dspark", 7, num_draft_tokens=3),
}
"""One block of depth 3 of each kind that drafts."""

RUNS: dict[str, tuple[str, ...]] = {"vllm": tuple(SOUND), "sglang": ("mtp", "eagle3", "dspark")}
"""The kinds that each backend speculates with through a canonical configuration."""


@dataclass(frozen=True)
class Row:
    """One row of the table: outcomes and stars in the order of vllm, sglang, trtllm."""

    name: str
    block: Block | None
    expected: Triple
    stars: Stars = NO_STARS
    rates: str = rates_of(3)
    nextn: int = 0
    mode: str = "op_level"


def rows() -> Iterator[Row]:
    yield from without_scheme()
    yield from ngram_rows()
    yield from mtp_rows()
    yield from eagle3_rows()
    yield from draft_model_rows()
    yield from block_rows()
    yield from unknown_rows()
    yield from clashes()


def without_scheme() -> Iterator[Row]:
    everywhere_accepted = (ACCEPT, ACCEPT, ACCEPT)
    both = (True, True, False)
    yield Row("no-speculation", None, everywhere_accepted, both, ABSENT)
    for depth in range(1, 6):
        yield Row(f"nextn-{depth}", None, everywhere_accepted, both, rates_of(depth), depth)
    for depth in (6, 7):
        yield Row(f"nextn-{depth}", None, REFUSED_CONFIG, NO_STARS, rates_of(depth), depth)
    yield Row("none", block("none", {}), everywhere_accepted, (True, False, False), ABSENT)
    yield Row("none-with-parameter", block("none", {"depth": 3}), REFUSED_PARAM, NO_STARS, ABSENT)
    yield Row("none-with-draft", block("none", {}, DRAFT_PATH), REFUSED_PARAM, NO_STARS, ABSENT)


def ngram_rows() -> Iterator[Row]:
    out_of_range = ("E_RANGE", "E_BACKEND", "E_BACKEND")
    for depth in range(1, 6):
        count = {"num_speculative_tokens": depth}
        yield Row(f"ngram-{depth}", block("ngram", count), VLLM_ONLY, (True, False, True), rates_of(depth))
    for depth in (-1, 0, 6, 7, 10**9):
        star = depth in (0, 6, 7)
        rates = rates_of(depth if depth in (6, 7) else 3)
        count = {"num_speculative_tokens": depth}
        yield Row(f"ngram-{depth}", block("ngram", count), out_of_range, (star, False, False), rates)
    yield Row("ngram-missing", block("ngram", {}), REFUSED_PARAM)
    for name, count_like in (("true", True), ("text", "3"), ("fraction", 2.5), ("float", 3.0)):
        yield Row(f"ngram-{name}", block("ngram", {"num_speculative_tokens": count_like}), REFUSED_PARAM)
    three = {"num_speculative_tokens": 3}
    yield Row("ngram-trigger-always", block("ngram", {**three, "trigger_rate": 1.0}), VLLM_ONLY)
    yield Row("ngram-trigger-sometimes", block("ngram", {**three, "trigger_rate": 0.5}), REFUSED_PARAM)
    yield Row("ngram-unknown-parameter", block("ngram", {**three, "window": 2}), REFUSED_PARAM)
    yield Row("ngram-with-draft", block("ngram", three, DRAFT_PATH), REFUSED_PARAM)


def mtp_rows() -> Iterator[Row]:
    out_of_range = ("E_RANGE", "E_RANGE", "E_BACKEND")
    for spelling, short in (("depth", "depth"), ("num_speculative_tokens", "tokens")):
        for depth in range(1, 6):
            stars = (depth == 3, depth == 3, True)
            yield Row(f"mtp-{short}-{depth}", block("mtp", {spelling: depth}), VLLM_AND_SGLANG, stars, rates_of(depth))
        for depth in (0, 6):
            rates = rates_of(depth or 3)
            yield Row(f"mtp-{short}-{depth}", block("mtp", {spelling: depth}), out_of_range, (True, True, False), rates)
        for name, depth_like in (("true", True), ("text", "3"), ("float", 3.0)):
            yield Row(f"mtp-{short}-{name}", block("mtp", {spelling: depth_like}), REFUSED_PARAM)
    yield Row("mtp-two-equal", block("mtp", {"depth": 3, "num_speculative_tokens": 3}), VLLM_AND_SGLANG)
    yield Row("mtp-two-different", block("mtp", {"depth": 3, "num_speculative_tokens": 2}), REFUSED_PARAM)
    yield Row("mtp-missing", block("mtp", {}), REFUSED_PARAM)
    yield Row("mtp-with-draft", block("mtp", {"depth": 3}, DRAFT_PATH), REFUSED_PARAM)


def eagle3_rows() -> Iterator[Row]:
    tree = ("E_TREE", "E_TREE", "E_BACKEND")
    both = (True, True, False)
    for depth in range(1, 6):
        stars = (depth == 3, depth == 3, True)
        chains = {"count": eagle3(num_speculative_tokens=depth), "shape": eagle3(tree_shape=[1] * depth)}
        for name, chain in chains.items():
            yield Row(f"eagle3-{name}-{depth}", chain, VLLM_AND_SGLANG, stars, rates_of(depth))
    yield Row("eagle3-default", eagle3(), VLLM_AND_SGLANG)
    yield Row("eagle3-by-path", block("eagle3", {"num_speculative_tokens": 3}, DRAFT_PATH), VLLM_AND_SGLANG)
    yield Row("eagle3-chain-budget", eagle3(num_speculative_tokens=3, verify_token_budget=4), VLLM_AND_SGLANG)
    yield Row("eagle3-text", eagle3(num_speculative_tokens="3"), REFUSED_PARAM)
    yield Row("eagle3-count-against-shape", eagle3(num_speculative_tokens=3, tree_shape=[1, 1]), REFUSED_PARAM)
    yield Row("eagle3-without-draft", block("eagle3", {"num_speculative_tokens": 3}), REFUSED_PARAM)
    yield Row("eagle3-tree-budget", eagle3(tree_shape=[1, 4, 4], verify_token_budget=10), tree, both)
    yield Row("eagle3-tree", eagle3(tree_shape=[2]), tree, both, rates_of(1))
    yield Row("eagle3-tree-narrowed", eagle3(tree_shape=[1, 2, 1], verify_token_budget=4), tree, both)
    for budget in (3, 10):
        yield Row(f"eagle3-budget-{budget}", eagle3(num_speculative_tokens=3, verify_token_budget=budget), tree)
    out_of_range = ("E_RANGE", "E_RANGE", "E_BACKEND")
    for name, chain in (("count", eagle3(num_speculative_tokens=6)), ("shape", eagle3(tree_shape=[1] * 6))):
        yield Row(f"eagle3-{name}-6", chain, out_of_range, both, rates_of(6))


def draft_model_rows() -> Iterator[Row]:
    for depth in range(1, 6):
        count = {"num_speculative_tokens": depth}
        yield Row(f"draft_model-{depth}", block("draft_model", count, DRAFT_PATH), VLLM_ONLY, rates=rates_of(depth))
    three = {"num_speculative_tokens": 3}
    six = block("draft_model", {"num_speculative_tokens": 6}, DRAFT_PATH)
    yield Row("draft_model-6", six, ("E_RANGE", "E_BACKEND", "E_BACKEND"), rates=rates_of(6))
    yield Row("draft_model-tp", block("draft_model", {**three, "draft_tp_size": 1}, DRAFT_PATH), VLLM_ONLY)
    yield Row("draft_model-missing", block("draft_model", {}, DRAFT_PATH), REFUSED_PARAM)
    yield Row("draft_model-without-path", block("draft_model", three), REFUSED_PARAM)
    yield Row("draft_model-without-path-but-config", block("draft_model", three, config=EAGLE_DRAFT), REFUSED_PARAM)


def block_rows() -> Iterator[Row]:
    vllm_range, range_on_both = ("E_RANGE", "E_BACKEND", "E_BACKEND"), ("E_RANGE", "E_RANGE", "E_BACKEND")
    for depth in range(1, 6):
        dflash = of_block_size("dflash", 16, num_draft_tokens=depth)
        dspark = of_block_size("dspark", 7, num_draft_tokens=depth)
        yield Row(f"dflash-{depth}", dflash, VLLM_ONLY, rates=rates_of(depth))
        yield Row(f"dspark-{depth}", dspark, VLLM_AND_SGLANG, rates=rates_of(depth))
    yield Row("dflash-6", of_block_size("dflash", 16, num_draft_tokens=6), vllm_range, rates=rates_of(6))
    yield Row("dspark-6", of_block_size("dspark", 7, num_draft_tokens=6), range_on_both, rates=rates_of(6))
    yield Row("dflash-default", of_block_size("dflash", 16), vllm_range, rates=rates_of(15))
    yield Row("dspark-default", of_block_size("dspark", 7), range_on_both, rates=rates_of(7))
    yield Row("dflash-block-4", of_block_size("dflash", 4), VLLM_ONLY)
    yield Row("dspark-block-3", of_block_size("dspark", 3), VLLM_AND_SGLANG)
    for kind, outcome in (("dflash", VLLM_ONLY), ("dspark", VLLM_AND_SGLANG)):
        yield Row(f"{kind}-by-path", block(kind, {"num_draft_tokens": 3}, DRAFT_PATH), outcome)
        yield Row(f"{kind}-missing", block(kind, {}), REFUSED_PARAM)
        yield Row(f"{kind}-text", of_block_size(kind, 16, num_draft_tokens="3"), REFUSED_PARAM)


def unknown_rows() -> Iterator[Row]:
    for kind in ("eagle", "medusa", "lookahead", "suffix", "tree", "clairvoyance"):
        unknown = block(kind, {"num_speculative_tokens": 3})
        yield Row(f"unknown-{kind}", unknown, ("E_KIND", "E_KIND", "E_KIND"))
    for name, kind in (("empty", ""), ("blank", "  ")):
        yield Row(f"kind-{name}", block(kind, {"num_speculative_tokens": 3}), REFUSED_CONFIG)


def clashes() -> Iterator[Row]:
    """Each scheme with a second depth, and with an estimation mode that has no cost for it."""
    for name, scheme in {"none": block("none", {}), **SOUND}.items():
        rates = ABSENT if name == "none" else rates_of(3)
        for nextn in (1, 3):
            yield Row(f"{name}-and-nextn-{nextn}", scheme, REFUSED_CONFIG, rates=rates, nextn=nextn)
        for mode in ("fpm_interpolation", "fpm_regression"):
            yield Row(f"{name}-{mode}", scheme, REFUSED_CONFIG, rates=rates, mode=mode)
    for name in ("mtp", "eagle3"):
        yield Row(f"{name}-auto", SOUND[name], VLLM_AND_SGLANG, mode="auto")
    yield Row("nextn-3-fpm_interpolation", None, REFUSED_CONFIG, nextn=3, mode="fpm_interpolation")
    yield Row("nextn-3-auto", None, (ACCEPT, ACCEPT, ACCEPT), nextn=3, mode="auto")


def scheme_cells() -> Iterator[Cell]:
    """Every row on every backend in every role, capacity explicit and aic_nextn left to be inferred."""
    for row in rows():
        for backend, role in everywhere():
            column = BACKENDS.index(backend)
            document = launch_document(
                backend,
                role,
                speculation=row.block,
                nextn=row.nextn,
                rates=row.rates,
                canonical={"estimation_mode": row.mode},
            )
            yield Cell(SECTION, row.name, backend, role, document, row.expected[column], row.stars[column])
