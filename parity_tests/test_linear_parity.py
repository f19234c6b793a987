"""Row-by-row comparison of the product's linear fit with the oracle, through the product's public interface alone."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from oracle.replay import ReplayedRow, replay
from oracle.traces import TRACES_VARIABLE, read_recording, recordings_folder

RECORDINGS = (
    "b300/qwen3-32b_tp1.csv.gz",
    "b300/dsv4-flash_tp1.csv.gz",
    "b300/qwen3.6-35b-a3b_dp8ep8_rank0only.csv.gz",
    "b300/b200_trtllm_gpt-oss-120b_prefill.csv.gz",
    "cpu/dense-chat.jsonl.gz",
    "cpu/prefill-only.jsonl.gz",
)
"""The recordings compared by default, each from its first to its last row: a whole one takes the oracle seconds."""

ALL_VARIABLE = "FOREPASS_PARITY_ALL"
"""Set to 1 to compare every recording of the folder."""

OBSERVED_TOLERANCE = 1e-12
PREDICTED_TOLERANCE = 1e-9
LISTED_DIFFERENCES = 5

FOLDER = recordings_folder(Path(__file__))


def chosen_recordings() -> list[str]:
    if os.environ.get(ALL_VARIABLE) != "1" or FOLDER is None:
        return list(RECORDINGS)
    return sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.gz"))


@dataclass(frozen=True)
class ProductRow:
    """One line of the product's predictions file, times in ms."""

    kind: str
    observed_ms: float
    predicted_ms: float | None
    source: str
    reason: str


def product_rows(recording: Path, predictions: Path) -> dict[int, ProductRow]:
    """Replay a recording with the product; its scored iterations by row number."""
    import forepass

    forepass.replay(str(recording), fits=["linear"], baselines=False, predictions=str(predictions))
    rows: dict[int, ProductRow] = {}
    with predictions.open(newline="") as lines:
        for line in csv.DictReader(lines):
            number = int(line["row"])
            assert number not in rows, f"row {number} is there twice"
            rows[number] = ProductRow(
                kind=line["kind"],
                observed_ms=float(line["observed_ms"]),
                predicted_ms=float(line["predicted_ms"]) if line["predicted_ms"] else None,
                source=line["source"],
                reason=line["reason"],
            )
    return rows


def close(product: float, expected: float, tolerance: float) -> bool:
    return abs(product - expected) <= tolerance * abs(expected)


def difference(product: ProductRow | None, expected: ReplayedRow) -> str | None:
    """What differs on one row, or None."""
    if product is None:
        return "row: missing from the product"
    if product.kind != expected.kind:
        return f"kind: product {product.kind}, oracle {expected.kind}"
    if not close(product.observed_ms, expected.observed_ms, OBSERVED_TOLERANCE):
        return f"observed_ms: product {product.observed_ms!r}, oracle {expected.observed_ms!r}"
    if product.predicted_ms is None or expected.predicted_ms is None:
        ours = (expected.predicted_ms, expected.reason)
        theirs = (product.predicted_ms, product.reason)
        return None if ours == theirs else f"predicted_ms and reason: product {theirs!r}, oracle {ours!r}"
    if product.source != "linear":
        return f"source: product {product.source!r}, oracle 'linear'"
    if not close(product.predicted_ms, expected.predicted_ms, PREDICTED_TOLERANCE):
        apart = abs(product.predicted_ms - expected.predicted_ms) / expected.predicted_ms
        return f"predicted_ms: product {product.predicted_ms!r}, oracle {expected.predicted_ms!r}, apart by {apart:.1e}"
    return None


def window(expected: ReplayedRow) -> str:
    """How well the rows behind the oracle's answer tell the two axes apart."""
    if expected.one_minus_rho2 is None:
        apart = "fewer than two varying axes or no fit"
    else:
        apart = f"1-rho^2 = {expected.one_minus_rho2:.3e}"
        if expected.single_axis_tie:
            apart += ", single-axis faces tie"
    return f"{expected.retained} rows retained, {apart}"


def differences(product: dict[int, ProductRow], expected: list[ReplayedRow]) -> list[str]:
    """Every difference, each with the window it arose in."""
    found = [
        f"row {row.row} ({row.kind}): {text}; {window(row)}"
        for row in expected
        if (text := difference(product.get(row.row), row)) is not None
    ]
    found += [f"row {number}: only in the product" for number in sorted(product.keys() - {row.row for row in expected})]
    return found


@pytest.mark.skipif(
    FOLDER is None, reason=f"no folder shared/traces beside the repository and none named by {TRACES_VARIABLE}"
)
@pytest.mark.parametrize("name", chosen_recordings())
def test_the_product_answers_as_the_oracle_does(name: str, tmp_path: Path) -> None:
    assert FOLDER is not None
    recording = FOLDER / name
    if not recording.exists():
        pytest.skip(f"{name} is not in the folder of recordings")
    product = product_rows(recording, tmp_path / "predictions.csv")
    expected = list(replay(read_recording(recording)))
    assert expected, "the oracle scored no row"
    found = differences(product, expected)
    listed = "\n  ".join(found[:LISTED_DIFFERENCES])
    if found:
        pytest.fail(
            f"{name}: {len(found)} of {len(expected)} rows differ, the first of them:\n  {listed}", pytrace=False
        )


ANSWERED = ReplayedRow(7, "w", "pure_decode", 10.0, 20.0, None, 1e-7, True, 64)
ABSTAINED = ReplayedRow(8, "w", "pure_decode", 10.0, None, "cold", None, False, 3)


@pytest.mark.parametrize(
    ("expected", "product", "differs"),
    [
        (ANSWERED, ProductRow("pure_decode", 10.0, 20.0, "linear", ""), ""),
        (ANSWERED, ProductRow("pure_decode", 10.0, 20.0 * (1 + 9e-10), "linear", "extrapolating"), ""),
        (ANSWERED, ProductRow("pure_decode", 10.0, 20.0 * (1 + 2e-9), "linear", ""), "predicted_ms: "),
        (ANSWERED, ProductRow("pure_decode", 10.0 * (1 + 1e-11), 20.0, "linear", ""), "observed_ms: "),
        (ANSWERED, ProductRow("pure_prefill", 10.0, 20.0, "linear", ""), "kind: "),
        (ANSWERED, ProductRow("pure_decode", 10.0, 20.0, "spline", ""), "source: "),
        (ANSWERED, ProductRow("pure_decode", 10.0, float("nan"), "linear", ""), "predicted_ms: "),
        (ANSWERED, ProductRow("pure_decode", 10.0, None, "", "cold"), "predicted_ms and reason: "),
        (ANSWERED, None, "row: "),
        (ABSTAINED, ProductRow("pure_decode", 10.0, None, "", "cold"), ""),
        (ABSTAINED, ProductRow("pure_decode", 10.0, None, "", "no_load_signal"), "predicted_ms and reason: "),
        (ABSTAINED, ProductRow("pure_decode", 10.0, 20.0, "linear", ""), "predicted_ms and reason: "),
    ],
)
def test_the_comparison_bites(expected: ReplayedRow, product: ProductRow | None, differs: str) -> None:
    text = difference(product, expected)
    assert text is None if differs == "" else text is not None and text.startswith(differs)


def test_a_row_that_only_the_product_has_is_a_difference() -> None:
    row = ProductRow("pure_decode", 10.0, 20.0, "linear", "")
    assert differences({7: row, 9: row}, [ANSWERED]) == ["row 9: only in the product"]
