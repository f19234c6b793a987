"""Row-by-row comparison of the product's linear fit with the oracle, through the product's public interface alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oracle.replay import ReplayedRow, replay
from oracle.traces import TRACES_VARIABLE, read_recording, recordings_folder
from product import ProductRow, product_rows, row_difference, row_differences

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

PREDICTED_TOLERANCE = 1e-9
LISTED_DIFFERENCES = 5

FOLDER = recordings_folder(Path(__file__))


def chosen_recordings() -> list[str]:
    if os.environ.get(ALL_VARIABLE) != "1" or FOLDER is None:
        return list(RECORDINGS)
    return sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.gz"))


def difference(product: ProductRow | None, expected: ReplayedRow) -> str | None:
    """What differs on one row, or None."""
    return row_difference(product, expected, "linear", PREDICTED_TOLERANCE)


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
    return row_differences(product, expected, difference, window)


@pytest.mark.skipif(
    FOLDER is None, reason=f"no folder shared/traces beside the repository and none named by {TRACES_VARIABLE}"
)
@pytest.mark.parametrize("name", chosen_recordings())
def test_the_product_answers_as_the_oracle_does(name: str, tmp_path: Path) -> None:
    assert FOLDER is not None
    recording = FOLDER / name
    if not recording.exists():
        pytest.skip(f"{name} is not in the folder of recordings")
    product = product_rows(recording, tmp_path / "predictions.csv", "linear")
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
