"""Row-by-row comparison of the product's spline with the oracle, and of its knots and counters at the end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from oracle.forecaster import SPLINE_PERIODIC, Forecaster
from oracle.record import RankRecord
from oracle.replay import ReplayedRow, replay
from oracle.spline_store import SPLINE, SplineStore
from oracle.traces import TRACES_VARIABLE, read_recording, recordings_folder
from product import ProductRow, close, message, product_rows
from product import row_difference as product_row_difference
from product import row_differences as product_row_differences

FITS = (SPLINE, SPLINE_PERIODIC)

RECORDINGS = (
    "b300/qwen3-32b_tp1.csv.gz",
    "b300/dsv4-flash_tp2dp2ep4_rank0only.csv.gz",
    "cpu/prefill-only.jsonl.gz",
    "cpu/dense-chat.jsonl.gz",
)
"""The recordings compared by default."""

DEFAULT_ITERATIONS = 1_600
"""How much of each is compared by default: the oracle takes 2 to 5 ms an iteration, and there are eight comparisons."""

ALL_VARIABLE = "FOREPASS_PARITY_ALL"
"""Set to 1 to compare every recording of the folder, each from its first to its last row."""

PREDICTED_TOLERANCE = 1e-8
KNOT_TOLERANCE = 1e-12
LISTED_DIFFERENCES = 5

COMPARED_DIAGNOSTICS = (
    "initialized",
    "ready",
    "accepted_observations",
    "knot_searches",
    "last_search_observation",
)
"""How often sums are rebuilt is the product's own affair."""

ALL = os.environ.get(ALL_VARIABLE) == "1"
LIMIT = None if ALL else DEFAULT_ITERATIONS
FOLDER = recordings_folder(Path(__file__))

needs_recordings = pytest.mark.skipif(
    FOLDER is None, reason=f"no folder shared/traces beside the repository and none named by {TRACES_VARIABLE}"
)

Stores = Mapping[tuple[str, str], Mapping[str, Any]]
"""Diagnostics of a spline by worker and kind of iteration."""


def chosen_recordings() -> list[str]:
    if not ALL or FOLDER is None:
        return list(RECORDINGS)
    return sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.gz"))


# --- rows -------------------------------------------------------------------------------------------------------


def row_difference(product: ProductRow | None, expected: ReplayedRow) -> str | None:
    """What differs on one row, or None."""
    return product_row_difference(product, expected, expected.source, PREDICTED_TOLERANCE)


def row_differences(product: Mapping[int, ProductRow], expected: list[ReplayedRow]) -> list[str]:
    """Every difference, each with what the oracle knows of the store it arose in."""
    return product_row_differences(
        product,
        expected,
        row_difference,
        lambda row: f"{row.source} after {row.knot_searches} searches, {row.retained} rows",
    )


# --- stores at the end ------------------------------------------------------------------------------------------


def product_stores(records: list[RankRecord], fit: str) -> Stores:
    """Let the product learn the records, one model a worker; the diagnostics of every spline."""
    import forepass

    models: dict[str, Any] = {}
    for number, record in enumerate(records):
        if record.worker_id not in models:
            models[record.worker_id] = forepass.ForwardPassModel(worker_type="aggregated", fit=fit)
        models[record.worker_id].observe(message(record, number))
    return {
        (worker_id, store["workload_kind"]): store["spline"]
        for worker_id, model in models.items()
        for store in model.diagnostics()["stores"]
        if store["accepted_observations"] > 0  # the oracle opens a store with its first row
    }


def oracle_stores(forecasters: Mapping[str, Forecaster]) -> Stores:
    return {
        (worker_id, kind): store.diagnostics()
        for worker_id, forecaster in forecasters.items()
        for kind, store in forecaster.stores.items()
        if isinstance(store, SplineStore)
    }


def knots_agree(product: Any, expected: list[list[float]] | None) -> bool:
    """Whether there are the same knots on each axis, or none at all in both."""
    if product is None or expected is None:
        return product is None and expected is None
    return [len(line) for line in product] == [len(line) for line in expected] and all(
        close(knot, other, KNOT_TOLERANCE)
        for line, others in zip(product, expected, strict=True)
        for knot, other in zip(line, others, strict=True)
    )


def store_differences(product: Stores, expected: Stores) -> list[str]:
    """Every difference of the diagnostics."""
    if product.keys() != expected.keys():
        return [f"stores: product {sorted(product)}, oracle {sorted(expected)}"]
    found = []
    for key, oracle in expected.items():
        theirs = product[key]
        for name in COMPARED_DIAGNOSTICS:
            if theirs[name] != oracle[name] or type(theirs[name]) is not type(oracle[name]):
                found.append(f"{key}: {name}: product {theirs[name]!r}, oracle {oracle[name]!r}")
        if not knots_agree(theirs["knots"], oracle["knots"]):
            found.append(f"{key}: knots: product {theirs['knots']!r}, oracle {oracle['knots']!r}")
    return found


# --- the comparison ---------------------------------------------------------------------------------------------


@cache
def oracle_run(name: str, fit: str) -> tuple[list[ReplayedRow], dict[str, Forecaster]]:
    assert FOLDER is not None
    forecasters: dict[str, Forecaster] = {}
    rows = list(replay(read_recording(FOLDER / name), LIMIT, fit, forecasters))
    assert rows, "the oracle scored no row"
    return rows, forecasters


def recording(name: str) -> Path:
    assert FOLDER is not None
    if not (FOLDER / name).exists():
        pytest.skip(f"{name} is not in the folder of recordings")
    return FOLDER / name


def fail_with(found: list[str], what: str) -> None:
    if found:
        listed = "\n  ".join(found[:LISTED_DIFFERENCES])
        pytest.fail(f"{what}: {len(found)} differences, the first of them:\n  {listed}", pytrace=False)


@needs_recordings
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("name", chosen_recordings())
def test_the_product_answers_as_the_oracle_does(name: str, fit: str, tmp_path: Path) -> None:
    product = product_rows(recording(name), tmp_path / "predictions.csv", fit)
    compared = {number: row for number, row in product.items() if LIMIT is None or number < LIMIT}
    fail_with(row_differences(compared, oracle_run(name, fit)[0]), f"{name}, {fit}")


@needs_recordings
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("name", chosen_recordings())
def test_the_product_ends_with_the_knots_of_the_oracle(name: str, fit: str) -> None:
    product = product_stores(list(read_recording(recording(name)))[:LIMIT], fit)
    fail_with(store_differences(product, oracle_stores(oracle_run(name, fit)[1])), f"{name}, {fit}")


# --- that it bites ----------------------------------------------------------------------------------------------

BY_SPLINE = ReplayedRow(7, "w", "pure_decode", 10.0, 20.0, None, 1e-7, False, 64, SPLINE, 2)
BY_LINEAR = replace(BY_SPLINE, source="linear")
ABSTAINED = ReplayedRow(8, "w", "pure_decode", 10.0, None, "cold", None, False, 3, None, 0)


@pytest.mark.parametrize(
    ("expected", "product", "differs"),
    [
        (BY_SPLINE, ProductRow("pure_decode", 10.0, 20.0, "spline", ""), ""),
        (BY_SPLINE, ProductRow("pure_decode", 10.0, 20.0 * (1 + 9e-9), "spline", ""), ""),
        (BY_SPLINE, ProductRow("pure_decode", 10.0, 20.0 * (1 + 2e-8), "spline", ""), "predicted_ms: "),
        (BY_SPLINE, ProductRow("pure_decode", 10.0 * (1 + 1e-11), 20.0, "spline", ""), "observed_ms: "),
        (BY_SPLINE, ProductRow("pure_prefill", 10.0, 20.0, "spline", ""), "kind: "),
        (BY_SPLINE, ProductRow("pure_decode", 10.0, 20.0, "linear", ""), "source: "),
        (BY_SPLINE, ProductRow("pure_decode", 10.0, float("nan"), "spline", ""), "predicted_ms: "),
        (BY_SPLINE, ProductRow("pure_decode", 10.0, None, "", "no_load_signal"), "predicted_ms and reason: "),
        (BY_SPLINE, None, "row: "),
        (BY_LINEAR, ProductRow("pure_decode", 10.0, 20.0, "linear", "extrapolating"), ""),
        (BY_LINEAR, ProductRow("pure_decode", 10.0, 20.0, "spline", ""), "source: "),
        (ABSTAINED, ProductRow("pure_decode", 10.0, None, "", "cold"), ""),
        (ABSTAINED, ProductRow("pure_decode", 10.0, None, "", "no_load_signal"), "predicted_ms and reason: "),
        (ABSTAINED, ProductRow("pure_decode", 10.0, 20.0, "spline", ""), "predicted_ms and reason: "),
    ],
)
def test_the_comparison_of_rows_bites(expected: ReplayedRow, product: ProductRow | None, differs: str) -> None:
    text = row_difference(product, expected)
    assert text is None if differs == "" else text is not None and text.startswith(differs)


def test_a_row_that_only_the_product_has_is_a_difference() -> None:
    row = ProductRow("pure_decode", 10.0, 20.0, "spline", "")
    assert row_differences({7: row, 9: row}, [BY_SPLINE]) == ["row 9: only in the product"]


SEARCHED = {
    "initialized": True,
    "ready": True,
    "accepted_observations": 70,
    "knot_searches": 2,
    "last_search_observation": 64,
    "knots": [[100.0, 200.0], [3.0]],
}
COLD = {
    "initialized": False,
    "ready": False,
    "accepted_observations": 20,
    "knot_searches": 0,
    "last_search_observation": None,
    "knots": None,
}
OWN_COUNTERS = {"numerical_rebuilds": 3, "batch_fallbacks": 5}


@pytest.mark.parametrize(
    ("expected", "change", "differs"),
    [
        (SEARCHED, {}, 0),
        (SEARCHED, {"knots": [[100.0, 200.0 * (1 + 5e-13)], [3.0]]}, 0),
        (SEARCHED, {"knots": [[100.0, 200.0 * (1 + 2e-12)], [3.0]]}, 1),
        (SEARCHED, {"knots": [[100.0, float("nan")], [3.0]]}, 1),
        (SEARCHED, {"knots": [[100.0, 200.0], []]}, 1),
        (SEARCHED, {"knots": None}, 1),
        (SEARCHED, {"initialized": 1}, 1),
        (SEARCHED, {"ready": False}, 1),
        (SEARCHED, {"accepted_observations": 71}, 1),
        (SEARCHED, {"knot_searches": 3, "last_search_observation": 70}, 2),
        (COLD, {}, 0),
        (COLD, {"knots": [[], []]}, 1),
        (COLD, {"last_search_observation": 0}, 1),
    ],
)
def test_the_comparison_of_stores_bites(expected: dict[str, Any], change: dict[str, Any], differs: int) -> None:
    key = ("w", "pure_decode")
    assert len(store_differences({key: expected | OWN_COUNTERS | change}, {key: expected})) == differs


def test_another_store_is_a_difference() -> None:
    stores = {("w", "pure_decode"): SEARCHED}
    assert len(store_differences({}, stores)) == 1
    assert len(store_differences(stores | {("w", "pure_prefill"): COLD}, stores)) == 1


@needs_recordings
@pytest.mark.parametrize("fit", FITS)
def test_the_compared_part_of_a_recording_has_every_kind_of_answer(fit: str) -> None:
    rows, forecasters = oracle_run(RECORDINGS[0], fit)
    assert {row.source for row in rows} == {"linear", "spline", None}
    assert max(store["knot_searches"] for store in oracle_stores(forecasters).values()) >= 5
