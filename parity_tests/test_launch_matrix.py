"""The launch matrix: that the committed file is the oracle's, that the product agrees with it, and that this bites."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from launch_oracle.acceptance import AcceptanceFault, rates_of_mean
from launch_oracle.authoring import SPELLED_FLOATS
from launch_oracle.before import before
from launch_oracle.cells import ACCEPT
from launch_oracle.depths import Checkpoint, Draft, NeedsCheckpoint, draft_of
from launch_oracle.documents import Document, launch_document
from launch_oracle.matrix import FIXTURE, Record, launch_cells, launch_record, matrix, rendered
from launch_oracle.rules import Launch, resolve
from launch_oracle.schemes import SOUND

Resolver = Callable[[Document], Any]

SECTIONS = ("acceptance", "capacity", "check_order", "depth_agreement", "environment", "schemes")
BACKENDS = ("vllm", "sglang", "trtllm")
LISTED_DIFFERENCES = 5


def product_resolver() -> Resolver | None:
    """The product's `resolve_launch`, or None in a package without it."""
    try:
        product = importlib.import_module("forepass")
    except ImportError:
        return None
    resolver: Resolver | None = getattr(product, "resolve_launch", None)
    return resolver


RESOLVE = product_resolver()
needs_product = pytest.mark.skipif(RESOLVE is None, reason="the installed forepass has no resolve_launch")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    fixture = json.loads(FIXTURE.read_text(encoding="utf-8"))
    return [record for record in fixture["records"] if record["surface"] == "launch"]


def told_by(product: Mapping[str, Any]) -> dict[str, Any]:
    """The compared fields of the product's answer; a launch without a depth has no rates, however that is said."""
    error, rates = product["error"], product["acceptance_rates"]
    told = {"ok": product["ok"], "code": None if error is None else error["code"]}
    if product["ok"]:
        told |= {field: product[field] for field in ("depth", "decode_width", "tree", "aic_nextn", "capacity")}
        told["acceptance_rates"] = [float(rate) for rate in rates or ()]
    return told


def expected_of(after: Mapping[str, Any]) -> dict[str, Any]:
    expected = {field: value for field, value in after.items() if field != "outcome"}
    return {"ok": after["outcome"] == ACCEPT, **expected}


def difference(product: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The first field that differs, types included, or None."""
    told, expected = told_by(product), expected_of(after)
    for field in ("ok", "code", *sorted((told | expected).keys() - {"ok", "code"})):
        ours, theirs = (json.dumps(side.get(field), sort_keys=True) for side in (expected, told))
        if ours != theirs:
            return f"{field}: product {theirs}, oracle {ours}"
    return None


def answer_of(resolver: Resolver, document: Document) -> dict[str, Any]:
    answer: dict[str, Any] = resolver(copy.deepcopy(document)).to_dict()
    return answer


def test_the_committed_file_is_what_the_oracle_writes() -> None:
    written = rendered(matrix())
    committed = FIXTURE.read_bytes()
    assert committed == written.encode(), "goldens/launch_matrix.json: write it with python -m launch_oracle"


@needs_product
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("section", SECTIONS)
def test_the_product_answers_as_the_matrix_says(section: str, backend: str, records: list[Record]) -> None:
    assert RESOLVE is not None
    chosen = [record for record in records if (record["section"], record["backend"]) == (section, backend)]
    found = []
    for record in chosen:
        try:
            text = difference(answer_of(RESOLVE, record["document"]), record["after"])
        except Exception as raised:
            text = f"raised {type(raised).__name__}: {raised}"
        if text is not None:
            found.append(f"{record['id']}: {text}")
    if found:
        listed = "\n  ".join(found[:LISTED_DIFFERENCES])
        pytest.fail(f"{len(found)} of {len(chosen)} cells differ, the first of them:\n  {listed}", pytrace=False)


@needs_product
def test_an_accepted_launch_written_out_resolves_to_itself(records: list[Record]) -> None:
    assert RESOLVE is not None
    for record in records:
        if record["after"]["outcome"] == ACCEPT:
            once = answer_of(RESOLVE, record["document"])
            again = answer_of(RESOLVE, once["launch"])
            assert again["launch"] == once["launch"], record["id"]
            assert difference(again, record["after"]) is None, record["id"]


@pytest.fixture(scope="module")
def authored() -> list[Record]:
    fixture = json.loads(FIXTURE.read_text(encoding="utf-8"))
    return [record for record in fixture["records"] if record["surface"] != "launch"]


NEXTN_OPTIONS = {"acceptance_rates": "aic_nextn_accept_rates", "seed": "aic_mtp_seed", "depth": "nextn"}
"""What the fields of an authored depth are called among the options of an engine."""

DEPLOYED = {"model": "m", "system": "h200_sxm", "backend": "vllm"}


def authored_rates_of_product(record: Record) -> list[float]:
    """The rates that the product's public functions give to the inputs of a cell; raises where they refuse."""
    product = importlib.import_module("forepass")
    inputs = {
        name: SPELLED_FLOATS.get(value, value) if isinstance(value, str) else value
        for name, value in record["inputs"].items()
    }
    if "nextn" in inputs or "nextn_accepted" in inputs:
        options = {NEXTN_OPTIONS.get(name, name): value for name, value in inputs.items()}
        normal = product.normalize_speculation_engine_args(options, role="decode")
        rates = normal.get("aic_nextn_accept_rates")
    elif record["surface"] == "acceptance":
        given: list[float] = product.acceptance_from_mean(inputs["expected_accepted_tokens"], inputs["depth"])
        inputs = {"kind": "mtp", "params": {"depth": inputs.pop("depth")}, **inputs}
        assert rates_of_role(product, inputs) == given, "a block and the conversion alone say the same"
        return given
    else:
        return rates_of_role(product, inputs)
    return [float(rate) for rate in rates.split(",")] if rates else []


def rates_of_role(product: Any, block: Mapping[str, Any]) -> list[float]:
    options = {"num_gpu_blocks": 4096, "ais_perf_config": DEPLOYED, "speculation": block}
    launch = product.materialize_engine_launch_config("vllm", None, None, options, "decode")
    rates = launch["engine"].get("aic_nextn_accept_rates")
    return [float(rate) for rate in rates.split(",")] if rates else []


def authored_difference(told: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """What differs, or None; where the code of a refusal is not laid down, any will do."""
    if told["outcome"] != after["outcome"]:
        return f"outcome: product {told['outcome']} ({told['code']}), oracle {after['outcome']} ({after['code']})"
    if after["outcome"] == ACCEPT:
        ours, theirs = after["acceptance_rates"], told["acceptance_rates"]
        return None if ours == theirs else f"acceptance_rates: product {theirs}, oracle {ours}"
    if after["code"] not in (None, told["code"]):
        return f"code: product {told['code']}, oracle {after['code']}"
    return None


@needs_product
def test_the_product_reads_authored_acceptance_as_the_matrix_says(authored: list[Record]) -> None:
    product = importlib.import_module("forepass")
    found = []
    for record in authored:
        told: dict[str, Any]
        try:
            told = {"outcome": ACCEPT, "code": None, "acceptance_rates": authored_rates_of_product(record)}
        except (product.LaunchError, product.SpeculationError) as error:
            told = {"outcome": "reject", "code": error.code}
        if (text := authored_difference(told, record["after"])) is not None:
            found.append(f"{record['id']}: {text}")
    assert len(authored) == 25
    assert not found, "\n  ".join(found)


def test_a_perturbed_expectation_of_authored_acceptance_is_a_difference(authored: list[Record]) -> None:
    accepted = record_of(authored, "acceptance/acceptance/mtp-mean-1.5")["after"]
    refused = record_of(authored, "acceptance/authoring/mtp-mean-and-rates")["after"]
    for told, after in ((accepted, refused), (refused, accepted)):
        assert authored_difference(after, after) is None
        assert str(authored_difference(told, after)).startswith("outcome: ")
    assert str(authored_difference({**accepted, "acceptance_rates": [1.0]}, accepted)).startswith("acceptance_rates: ")
    assert str(authored_difference({**refused, "code": "E_PARAM"}, refused)).startswith("code: ")


@needs_product
def test_the_product_says_the_same_as_attributes_and_as_a_dictionary(records: list[Record]) -> None:
    assert RESOLVE is not None
    for outcome in (ACCEPT, "reject"):
        record = next(record for record in records if record["after"]["outcome"] == outcome)
        answer = RESOLVE(record["document"])
        told = answer.to_dict()
        assert told["schema"] == "forepass.launch.v1"
        for field in ("ok", "depth", "decode_width", "tree", "aic_nextn", "acceptance_rates", "capacity", "error"):
            assert getattr(answer, field) == told[field], field


ACCEPTED = {
    "ok": True,
    "depth": 3,
    "decode_width": 4,
    "tree": False,
    "aic_nextn": 3,
    "acceptance_rates": [0.8, 0.7, 0.6],
    "capacity": {"num_gpu_blocks": 4096, "explicit": True},
    "error": None,
}
REFUSED = dict.fromkeys(ACCEPTED) | {"ok": False, "error": {"code": "E_TREE", "path": "", "message": ""}}


def record_of(records: list[Record], name: str) -> Record:
    return next(record for record in records if record["id"] == name)


@pytest.mark.parametrize(
    ("field", "perturbed", "differs"),
    [
        ("depth", 2, "depth: "),
        ("depth", 3.0, "depth: "),
        ("decode_width", 1, "decode_width: "),
        ("tree", True, "tree: "),
        ("tree", 0, "tree: "),
        ("aic_nextn", None, "aic_nextn: "),
        ("acceptance_rates", [0.8, 0.7, 0.5], "acceptance_rates: "),
        ("acceptance_rates", [0.8, 0.7], "acceptance_rates: "),
        ("acceptance_rates", [], "acceptance_rates: "),
        ("capacity", {"num_gpu_blocks": 4096, "explicit": False}, "capacity: "),
        ("capacity", {"num_gpu_blocks": 16384, "explicit": True}, "capacity: "),
        ("code", "E_CAPACITY", "code: "),
        ("outcome", "reject", "ok: "),
    ],
)
def test_a_perturbed_expectation_of_an_accepted_cell_is_a_difference(
    field: str, perturbed: object, differs: str, records: list[Record]
) -> None:
    after = record_of(records, "schemes/mtp-tokens-3/vllm/prefill")["after"]
    assert difference(ACCEPTED, after) is None
    text = difference(ACCEPTED, {**after, field: perturbed})
    assert text is not None
    assert text.startswith(differs)


@pytest.mark.parametrize(
    ("perturbed", "differs"),
    [
        ({"outcome": "reject", "code": "E_RANGE"}, "code: "),
        ({"outcome": "reject", "code": None}, "code: "),
        ({"outcome": ACCEPT, "code": None, "depth": 3}, "ok: "),
    ],
)
def test_a_perturbed_expectation_of_a_refused_cell_is_a_difference(
    perturbed: Record, differs: str, records: list[Record]
) -> None:
    after = record_of(records, "schemes/eagle3-tree/vllm/prefill")["after"]
    assert difference(REFUSED, after) is None
    text = difference(REFUSED, perturbed)
    assert text is not None
    assert text.startswith(differs)


def test_a_cell_whose_tabulated_outcome_the_rules_do_not_give_is_refused() -> None:
    cell = next(cell for cell in launch_cells() if cell.name == "eagle3-tree")
    with pytest.raises(ValueError, match="the rules say E_TREE, the table accept"):
        launch_record(replace(cell, expected=ACCEPT))


def test_every_cell_stands_in_every_role() -> None:
    roles: dict[tuple[str, str, str], set[str]] = {}
    for cell in launch_cells():
        if cell.document["engine"]["timing_model"].get("config", {}).get("worker_type") in (None, cell.role):
            roles.setdefault((cell.section, cell.name, cell.backend), set()).add(cell.role)
    assert {tuple(sorted(told)) for told in roles.values()} == {("aggregated", "decode", "prefill")}


DRAFT = Checkpoint(config={"architectures": ["LlamaForCausalLMEagle3"]})


@pytest.mark.parametrize(
    ("kind", "params", "checkpoint", "expected"),
    [
        ("mtp", {"depth": 3}, Checkpoint(), (3, 4)),
        ("mtp", {"num_speculative_tokens": 3}, Checkpoint(), (3, 4)),
        ("ngram", {"num_speculative_tokens": 7}, Checkpoint(), (7, 8)),
        ("eagle3", {"num_speculative_tokens": 3}, DRAFT, (3, 4)),
        ("eagle3", {"tree_shape": [1, 4, 4], "verify_token_budget": 10}, DRAFT, (3, 10)),
        ("dflash", {}, Checkpoint(config={"block_size": 16}), (15, 16)),
        ("dspark", {}, Checkpoint(config={"block_size": 7}), (7, 8)),
        ("draft_model", {"num_speculative_tokens": 3}, Checkpoint(path="/checkpoints/draft"), (3, 4)),
        # Not among the published pairs: root and 1 + 4 + 4 nodes without a budget; no draft at all.
        ("eagle3", {"tree_shape": [1, 4, 4]}, DRAFT, (3, 10)),
        ("none", {}, Checkpoint(), (0, 1)),
    ],
)
def test_depth_and_width_are_those_published_for_the_schemes(
    kind: str, params: dict[str, Any], checkpoint: Checkpoint, expected: tuple[int, int]
) -> None:
    draft = draft_of(kind, params, checkpoint)
    assert (draft.depth, draft.verify_width) == expected
    assert draft.tree == ("tree_shape" in params)


def test_a_depth_in_a_checkpoint_known_by_path_alone_is_not_told() -> None:
    with pytest.raises(NeedsCheckpoint):
        draft_of("dflash", {}, Checkpoint(path="/checkpoints/draft"))


def test_every_oracle_depth_of_an_accepted_cell_is_the_resolved_one(records: list[Record]) -> None:
    for record in records:
        config = record["document"]["engine"]["timing_model"].get("config", {})
        if record["after"]["outcome"] == ACCEPT and "backend" in config:
            drafted, after = record["oracle"], record["after"]
            assert Draft(**drafted) == Draft(after["depth"], after["decode_width"], after["tree"]), record["id"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Launch(0, 1, False, None, [], 4096, True)),
        ({"nextn": 3}, Launch(3, 4, False, 3, [0.85, 0.3, 0.0], 4096, True)),
        ({"nextn": 5, "rates": "0.5,1"}, Launch(5, 6, False, 5, [0.5, 1.0, 0.0, 0.0, 0.0], 4096, True)),
        ({"nextn": 1, "rates": "0.5,1"}, Launch(1, 2, False, 1, [0.5], 4096, True)),
        ({"nextn": 1, "blocks": "absent"}, Launch(1, 2, False, 1, [0.85], 16384, False)),
        ({"nextn": 1, "explicit": False}, Launch(1, 2, False, 1, [0.85], 4096, False)),
        ({"speculation": SOUND["eagle3"], "rates": "1,0.5,0"}, Launch(3, 4, False, 3, [1.0, 0.5, 0.0], 4096, True)),
    ],
)
def test_the_numbers_of_an_accepted_launch(options: dict[str, Any], expected: Launch) -> None:
    assert resolve(launch_document("vllm", "decode", **options)) == expected


@pytest.mark.parametrize(
    ("options", "outcome", "code"),
    [
        ({"nextn": 3}, ACCEPT, None),
        ({"speculation": SOUND["mtp"], "rates": "1,0.5,0", "aic_nextn": 3}, "reject", "E_DEPTH_CONFLICT"),
        ({"speculation": SOUND["mtp"], "rates": "1,0.5,0"}, "reject", "E_ENGINE"),
        ({"speculation": SOUND["mtp"]}, None, None),
        ({"speculation": SOUND["ngram"], "rates": "1,0.5,0"}, "reject", None),
        ({"nextn": 3, "aic_nextn": None}, "reject", "E_DEPTH_CONFLICT"),
    ],
)
def test_before_only_nextn_was_read(options: dict[str, Any], outcome: str | None, code: str | None) -> None:
    told = before(launch_document("vllm", "decode", **options))
    assert (told.outcome, told.code) == (outcome, code)
    assert told.why


@pytest.mark.parametrize(
    ("mean", "rates"),
    [
        (0.0, [0.0, 0.0, 0.0]),
        (0.25, [0.25, 0.0, 0.0]),
        (1.0, [1.0, 0.0, 0.0]),
        (1.5, [1.0, 0.5, 0.0]),
        (3.0, [1.0, 1.0, 1.0]),
    ],
)
def test_a_mean_becomes_ones_a_fraction_and_zeros_that_expect_it(mean: float, rates: list[float]) -> None:
    assert rates_of_mean(mean, 3) == rates
    reached, expected = Fraction(1), Fraction(0)
    for rate in rates:
        reached *= Fraction(rate)
        expected += reached
    assert expected == Fraction(mean)


@pytest.mark.parametrize("mean", [3.1, -1.0, float("nan"), float("inf")])
def test_a_mean_that_no_depth_of_3_reaches_is_refused(mean: float) -> None:
    with pytest.raises(AcceptanceFault):
        rates_of_mean(mean, 3)
