"""The parts of the adaptive oracle by hand: which rows stay, the level of late, and the ends of an interval."""

from __future__ import annotations

from fractions import Fraction

import pytest

from oracle.adaptive import level_of
from oracle.intervals import Intervals
from oracle.spread import SpreadRetention

NINE_OF_TEN = Fraction(9, 10)


def arrivals(retention: SpreadRetention) -> list[int]:
    for load in (0.0, 9.0, 9.0, 9.0, 9.0):
        retention.insert((load, load), 1.0)
    return [row.arrival for row in retention.rows]


def test_the_oldest_row_of_the_fullest_cell_goes() -> None:
    # Rows 0, 1 and 2 are in the grid when the fifth comes: the first alone in its cell, the others together.
    assert arrivals(SpreadRetention(capacity=4, recent=2)) == [0, 2, 3, 4]


def test_a_row_that_is_too_old_goes_first() -> None:
    assert arrivals(SpreadRetention(capacity=4, recent=2, max_age=4)) == [0, 2, 3, 4]
    assert arrivals(SpreadRetention(capacity=4, recent=2, max_age=3)) == [1, 2, 3, 4]


def test_a_grid_is_spanned_anew_by_a_row_beyond_it() -> None:
    retention = SpreadRetention(capacity=6, recent=1)
    for load in (0.0, 1.0, 2.0, 1000.0, 1000.0, 1000.0, 1000.0):
        retention.insert((load, 0.0), 1.0)
    # Over ln(1..1001), loads 0, 1 and 2 share the first quarter; three of 1000 the last; the first quarter is older.
    assert [row.arrival for row in retention.rows] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("latencies_ms", "level"),
    [
        ([], 1.0),
        ([2.0, 3.0], 2.0),  # weights 1/2 and 1/3
        ([4.0, 3.0, 2.0], 3.0),  # weights 1/2, 1/3, 1/4: the half of 13/12 is reached by 5/6
        ([1.0, 2.0, 4.0], 1.0),  # weights 1, 1/2, 1/4: the half of 7/4 is reached by 1
    ],
)
def test_the_level_has_the_least_sum_of_relative_errors(latencies_ms: list[float], level: float) -> None:
    assert level_of([(latency_ms, 1.0) for latency_ms in latencies_ms]) == level


def with_ratios(count: int) -> Intervals:
    intervals = Intervals()
    for k in range(1, count + 1):
        intervals.learn(float(k))
    return intervals


def test_a_level_is_calibrated_once_a_tail_is_worth_one_ratio() -> None:
    # 1/20 of the tail at 9/10, times 18 + 1, is below 1; times 19 + 1 it is 1.
    assert not with_ratios(18).calibrated(NINE_OF_TEN)
    assert with_ratios(19).calibrated(NINE_OF_TEN)
    assert with_ratios(19).ends(NINE_OF_TEN) == (1.0, 19.0)


def test_a_tail_moves_by_what_it_missed() -> None:
    intervals = with_ratios(19)
    intervals.learn(100.0)
    assert intervals.tails[NINE_OF_TEN] == pytest.approx([0.05 + 0.02 * 0.05, 0.05 - 0.02 * 0.95], rel=1e-12)


def test_a_tail_below_zero_reaches_beyond_the_ratios() -> None:
    intervals = with_ratios(19)
    intervals.tails[NINE_OF_TEN] = [-0.01, -0.02]
    assert intervals.ends(NINE_OF_TEN) == pytest.approx((1.0 / 1.2, 19.0 * 1.4), rel=1e-12)
