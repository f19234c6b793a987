"""Row-by-row comparison of the product's adaptive fit with the oracle, and of the state behind its answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from oracle.adaptive import (
    HALF_TOLERANCE,
    METHOD,
    TIE_TOLERANCE,
    Constants,
    Offers,
    State,
    first_to_reach_half,
)
from oracle.adaptive_replay import INTERVAL_LEVEL, AdaptiveRow, replay_adaptive
from oracle.replay import ReplayedRow
from oracle.store import Forecast
from oracle.traces import TRACES_VARIABLE, read_recording, recordings_folder
from product import AUTO, ProductRow, close, message, product_rows, row_difference

RECORDINGS = (
    "b300/qwen3-32b_tp2.csv.gz",
    "cpu/dense-chat.jsonl.gz",
    "cpu/noisy-neighbour.jsonl.gz",
)
"""The recordings compared by default; the last one has lines and splines without a price."""

DEFAULT_ITERATIONS = 1_500
"""How much of each is compared by default: the oracle takes some 5 ms an iteration, most of it in knot searches."""

ALL_VARIABLE = "FOREPASS_PARITY_ALL"
"""Set to 1 to compare every recording of the folder, each from its first to its last row."""

PREDICTED_TOLERANCE = 1e-6
CLOSE = 1e-8
"""All answers of the recordings compared by default agree to this."""
STATE_TOLERANCE = 1e-8
MOST_OTHERS_SHARE = 0.005
"""The share of rows in which rounding may decide between answers; the rule is `Offers.near_served`."""
STATE_EVERY = 25
LISTED_DIFFERENCES = 5
PERTURBED_ITERATIONS = 300

ALL = os.environ.get(ALL_VARIABLE) == "1"
LIMIT = None if ALL else DEFAULT_ITERATIONS
FOLDER = recordings_folder(Path(__file__))

needs_recordings = pytest.mark.skipif(
    FOLDER is None, reason=f"no folder shared/traces beside the repository and none named by {TRACES_VARIABLE}"
)


def chosen_recordings() -> list[str]:
    if not ALL or FOLDER is None:
        return list(RECORDINGS)
    return sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.gz"))


# --- rows -------------------------------------------------------------------------------------------------------


def difference(product: ProductRow | None, expected: AdaptiveRow, tolerance: float) -> str | None:
    """What differs on one row from the oracle's answer and from all that rounding could have made of it, or None."""
    texts = [answer_difference(product, expected.replayed, tolerance)]
    for other in expected.others:
        row = replace(expected.replayed, predicted_ms=other.value_ms, source=other.source, reason=other.reason)
        texts.append(answer_difference(product, row, tolerance))
    return None if None in texts else texts[0]


def answer_difference(product: ProductRow | None, expected: ReplayedRow, tolerance: float) -> str | None:
    """What differs on one row, caveats included, or None."""
    text = row_difference(product, expected, expected.source, tolerance)
    if text is None and product is not None and product.reason != (expected.reason or ""):
        return f"reason: product {product.reason!r}, oracle {expected.reason!r}"
    return text


def differences(
    product: Mapping[int, ProductRow], expected: list[AdaptiveRow], tolerance: float = PREDICTED_TOLERANCE
) -> list[str]:
    """Every difference, each with what the oracle knows of the store it arose in."""
    found = []
    for row in expected:
        number, state = row.replayed.row, row.state
        if (text := difference(product.get(number), row, tolerance)) is not None:
            told = f"{state.accepted} rows accepted, {state.kept} kept, {state.knot_searches} searches"
            found.append(f"row {number} ({row.replayed.kind}): {text}; {told}")
    numbers = {row.replayed.row for row in expected}
    return found + [f"row {number}: only in the product" for number in sorted(product.keys() - numbers)]


# --- the state behind them --------------------------------------------------------------------------------------


def state_of(store: Mapping[str, Any]) -> State:
    """The state that the product reports of a store."""
    adaptive = store["adaptive"]
    return State(
        accepted=store["accepted_observations"],
        kept=store["retained_observations"],
        levels=tuple(arm["level"] for arm in adaptive["arms"]),
        shares=tuple(arm["weight"] for arm in adaptive["arms"]),
        knot_searches=adaptive["knot_searches"],
        knots=adaptive["knots"],
    )


def all_close(product: list[float], expected: list[float]) -> bool:
    """Whether there are as many values and each is as expected."""
    return len(product) == len(expected) and all(
        close(value, other, STATE_TOLERANCE) for value, other in zip(product, expected, strict=True)
    )


def state_difference(product: State, expected: State) -> str | None:
    """What differs of the state, or None."""
    for name in ("accepted", "kept", "knot_searches"):
        if getattr(product, name) != getattr(expected, name):
            return f"{name}: product {getattr(product, name)}, oracle {getattr(expected, name)}"
    for name in ("levels", "shares"):
        if not all_close(list(getattr(product, name)), list(getattr(expected, name))):
            return f"{name}: product {getattr(product, name)}, oracle {getattr(expected, name)}"
    ours, theirs = expected.knots, product.knots
    if ours is None or theirs is None:
        agree = ours is None and theirs is None
    else:
        agree = len(ours) == len(theirs) and all(map(all_close, theirs, ours))
    return None if agree else f"knots: product {theirs}, oracle {ours}"


# --- the comparison ---------------------------------------------------------------------------------------------


@cache
def oracle_rows(name: str) -> list[AdaptiveRow]:
    assert FOLDER is not None
    rows = list(replay_adaptive(read_recording(FOLDER / name), LIMIT))
    assert rows, "the oracle scored no row"
    return rows


def recording(name: str) -> Path:
    assert FOLDER is not None
    if not (FOLDER / name).exists():
        pytest.skip(f"{name} is not in the folder of recordings")
    return FOLDER / name


def first_rows(product: Mapping[int, ProductRow], limit: int | None) -> dict[int, ProductRow]:
    return {number: row for number, row in product.items() if limit is None or number < limit}


def fail_with(found: list[str], what: str) -> None:
    if found:
        listed = "\n  ".join(found[:LISTED_DIFFERENCES])
        pytest.fail(f"{what}: {len(found)} differences, the first of them:\n  {listed}", pytrace=False)


@needs_recordings
@pytest.mark.parametrize("name", chosen_recordings())
def test_the_product_answers_as_the_oracle_does(name: str, tmp_path: Path) -> None:
    product = first_rows(product_rows(recording(name), tmp_path / "predictions.csv", AUTO), LIMIT)
    rows = oracle_rows(name)
    fail_with(differences(product, rows), name)
    if not ALL:
        fail_with(differences(product, rows, CLOSE), f"{name} to {CLOSE}")
    decided = sum(any(apart(row.replayed, other) for other in row.others) for row in rows)
    assert decided <= MOST_OTHERS_SHARE * len(rows)


def apart(answer: ReplayedRow, other: Forecast) -> bool:
    """Whether another answer differs by more than rounding."""
    if answer.predicted_ms is None or other.value_ms is None:
        return answer.predicted_ms != other.value_ms
    return not close(other.value_ms, answer.predicted_ms, PREDICTED_TOLERANCE)


@needs_recordings
@pytest.mark.parametrize("name", chosen_recordings())
def test_the_product_weighs_and_scales_its_forecasts_as_the_oracle_does(name: str) -> None:
    import forepass

    expected = {row.replayed.row: row for row in oracle_rows(name)}
    models: dict[str, Any] = {}
    found = []
    for number, record in enumerate(islice(read_recording(recording(name)), LIMIT)):
        model = models.setdefault(record.worker_id, forepass.ForwardPassModel(fit={"kind": AUTO}))
        row = expected.get(number)
        if row is not None and row.state.accepted % STATE_EVERY == 0:
            kind = row.replayed.kind
            store = next(store for store in model.diagnostics()["stores"] if store["workload_kind"] == kind)
            if (text := state_difference(state_of(store), row.state)) is not None:
                found.append(f"row {number} ({kind}): {text}")
        model.observe(message(record, number))
    fail_with(found, name)


@needs_recordings
@pytest.mark.parametrize("name", chosen_recordings())
def test_the_product_gives_the_intervals_of_the_oracle(name: str) -> None:
    import forepass

    models: dict[str, Any] = {}
    expected = {row.replayed.row: row for row in oracle_rows(name)}
    found = []
    for number, record in enumerate(islice(read_recording(recording(name)), LIMIT)):
        model = models.setdefault(record.worker_id, forepass.ForwardPassModel(fit={"kind": AUTO}))
        if number in expected:
            forecast = model.forecast(message(record, number), level=float(INTERVAL_LEVEL))
            known = forecast.low_ms is not None
            theirs = (forecast.low_ms, forecast.high_ms) if known else None
            ours = expected[number].interval_ms
            if (theirs is None) != (ours is None) or (
                ours is not None
                and not all(close(end, other, PREDICTED_TOLERANCE) for end, other in zip(theirs, ours, strict=True))
            ):
                found.append(f"row {number}: interval: product {theirs}, oracle {ours}")
        model.observe(message(record, number))
    fail_with(found, name)


# --- that it bites ----------------------------------------------------------------------------------------------


@needs_recordings
@pytest.mark.parametrize(
    "constants",
    [
        Constants(huber=0.71),
        Constants(windows=(2, 8, 31)),
        Constants(discount=0.94),
        Constants(rate=3.0),
        Constants(refit_divisor=9),
        Constants(search_divisor=3),
        Constants(recent=31),
    ],
    ids=lambda constants: next(name for name, value in vars(constants).items() if value != getattr(METHOD, name)),
)
def test_the_comparison_fails_for_another_method(constants: Constants, tmp_path: Path) -> None:
    name = RECORDINGS[0]
    rows = list(replay_adaptive(read_recording(recording(name)), PERTURBED_ITERATIONS, constants))
    product = product_rows(recording(name), tmp_path / "predictions.csv", AUTO)
    assert differences(first_rows(product, PERTURBED_ITERATIONS), rows)


REPLAYED = ReplayedRow(7, "w", "pure_decode", 10.0, 20.0, None, None, False, 64, "robust_spline", 2)
STATE = State(70, 64, (1.0, 1.1, 1.2), (0.2, 0.3, 0.5), 2, [[100.0, 200.0], [3.0]])
ROW = AdaptiveRow(REPLAYED, [Forecast(21.0, "tracked_spline", None)], None, STATE)
OUTSIDE = replace(ROW, replayed=replace(REPLAYED, reason="extrapolating"))


@pytest.mark.parametrize(
    ("expected", "product", "differs"),
    [
        (ROW, ProductRow("pure_decode", 10.0, 20.0, "robust_spline", ""), ""),
        (ROW, ProductRow("pure_decode", 10.0, 20.0 * (1 + 9e-7), "robust_spline", ""), ""),
        (ROW, ProductRow("pure_decode", 10.0, 20.0 * (1 + 2e-6), "robust_spline", ""), "predicted_ms: "),
        (ROW, ProductRow("pure_decode", 10.0, 20.0, "tracked_spline", ""), "source: "),
        (ROW, ProductRow("pure_decode", 10.0, 21.0, "tracked_spline", ""), ""),
        (ROW, ProductRow("pure_decode", 10.0, 21.0, "robust_spline", ""), "predicted_ms: "),
        (ROW, ProductRow("pure_decode", 10.0, 20.0, "robust_spline", "stale"), "reason: "),
        (ROW, ProductRow("pure_decode", 10.0, None, "", "cold"), "predicted_ms and reason: "),
        (ROW, None, "row: "),
        (OUTSIDE, ProductRow("pure_decode", 10.0, 20.0, "robust_spline", "extrapolating"), ""),
        (OUTSIDE, ProductRow("pure_decode", 10.0, 20.0, "robust_spline", ""), "reason: "),
    ],
)
def test_the_comparison_of_rows_bites(expected: AdaptiveRow, product: ProductRow | None, differs: str) -> None:
    text = difference(product, expected, PREDICTED_TOLERANCE)
    assert text is None if differs == "" else text is not None and text.startswith(differs)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, ""),
        ({"accepted": 71}, "accepted: "),
        ({"kept": 63}, "kept: "),
        ({"knot_searches": 3}, "knot_searches: "),
        ({"levels": (1.0, 1.1, 1.2 * (1 + 2e-8))}, "levels: "),
        ({"shares": (0.2, 0.3)}, "shares: "),
        ({"knots": None}, "knots: "),
        ({"knots": [[100.0, 200.0], []]}, "knots: "),
        ({"knots": [[100.0, 200.1], [3.0]]}, "knots: "),
    ],
)
def test_the_comparison_of_states_bites(change: dict[str, Any], differs: str) -> None:
    text = state_difference(replace(STATE, **change), STATE)
    assert text is None if differs == "" else text is not None and text.startswith(differs)


@pytest.mark.parametrize(
    ("values_ms", "weights", "near"),
    [
        ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), [1]),
        ((1.0, 2.0, 3.0, 4.0), (1.0, 1.0, 1.0, 1.0), [1, 2]),  # half of the weight ends where the third begins
        ((1.0, 2.0, 3.0, 4.0), (1.0, 1.0, 1.0, 1.0 + 1e-13), [2, 1]),
        ((1.0, 2.0, 3.0, 4.0), (1.0, 1.0, 1.0, 1.0 + 1e-9), [2]),
        ((1.0, 2.0, 2.0 + 1e-9, 4.0), (1.0, 1.0, 1.0, 0.0), [1, 2]),
        ((1.0, 2.0, 2.0 + 1e-8, 4.0), (1.0, 1.0, 1.0, 0.0), [1]),
    ],
)
def test_rounding_decides_only_where_half_of_the_weight_or_two_forecasts_tie(
    values_ms: tuple[float, ...], weights: tuple[float, ...], near: list[int]
) -> None:
    served = first_to_reach_half(values_ms, weights)
    assert Offers(values_ms, weights, served).near_served(HALF_TOLERANCE, TIE_TOLERANCE) == near
