"""Tests of the oracle's spline, its knots and its schedule, against values worked out by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest

from oracle.forecaster import FITS, SPLINE_PERIODIC, Forecaster
from oracle.knots import Search, candidate_knots, initial_knots, quantile, search_knots
from oracle.linear import CONSTANT_LOAD, NO_LOAD_SIGNAL
from oracle.nonnegative import Array, nonnegative_least_squares
from oracle.record import RankRecord
from oracle.retention import Retention
from oracle.schedule import Adaptive, Periodic, Schedule, due
from oracle.spline import REAL, Condition, Epoch, SplineFit, condition, fit_spline, segments
from oracle.spline_store import SPLINE, SplineStore
from oracle.store import LINEAR, Forecast

Observation = tuple[float, float, float]


def real(values: Iterable[float]) -> Array:
    return np.array(list(values), REAL)


def epoch(first: Sequence[float], second: Sequence[float], scales: tuple[float, float] = (1.0, 1.0)) -> Epoch:
    return Epoch((REAL(scales[0]), REAL(scales[1])), (real(first), real(second)))


def table(rows: Iterable[Observation]) -> tuple[Array, Array]:
    values = np.array(list(rows), REAL)
    return values[:, :2], values[:, 2]


def fitted(rows: Iterable[Observation], at: Epoch) -> SplineFit:
    fit = fit_spline(*table(rows), at)
    assert fit is not None
    return fit


def searched(rows: Iterable[Observation], knots_per_axis: int = 2, previous: Epoch | None = None) -> Search:
    return search_knots(*table(rows), knots_per_axis, previous)


def doubles(values: Array) -> list[float]:
    return [float(value) for value in values]


# --- basis ------------------------------------------------------------------------------------------------------


def test_segments_by_hand() -> None:
    columns = segments(real([0, 2, 3, 5, 9]), real([2, 5]))
    # Up to 2, from 2 to 5, and past 5 without end; a value at a knot reaches nothing of the next segment.
    assert columns.tolist() == [[0, 0, 0], [2, 0, 0], [2, 1, 0], [2, 3, 0], [2, 3, 4]]
    assert segments(real([0, 7]), real([])).tolist() == [[0], [7]]
    assert columns.sum(axis=1).tolist() == [0, 2, 3, 5, 9]  # Equal slopes make a straight line.


def test_axis_0_comes_first() -> None:
    columns = epoch([1], [10], (2.0, 1.0)).columns(np.array([[6, 12]], REAL))
    assert columns.tolist() == [[1, 2, 10, 2]]  # 6 over its scale of 2 is 3.


def test_raw_knots_are_in_the_units_of_the_features() -> None:
    assert epoch([0.25, 0.5], [0.5], (4000.0, 32.0)).raw_knots() == [[1000.0, 2000.0], [16.0]]


# --- fit at given knots -----------------------------------------------------------------------------------------

TENTHS = [i / 10 for i in range(11)]


def surface(
    knots: tuple[Sequence[float], Sequence[float]], slopes: tuple[Sequence[float], Sequence[float]], intercept: float
) -> Callable[[float, float], float]:
    """A sum of two bent lines, written as slopes times the lengths of the pieces passed."""

    def bent(x: float, axis: int) -> float:
        ends = [0.0, *knots[axis], math.inf]
        return sum(
            slope * max(0.0, min(x, end) - start)
            for slope, (start, end) in zip(slopes[axis], itertools.pairwise(ends), strict=True)
        )

    return lambda a, t: intercept + bent(a, 0) + bent(t, 1)


def test_a_bent_surface_is_recovered_at_its_knots() -> None:
    law = surface(([0.2, 0.6], [0.3, 0.7]), ([100, 20, 2], [60, 15, 1]), 3)
    rows = [(a, t, law(a, t)) for a in TENTHS for t in TENTHS]
    fit = fitted(rows, epoch([0.2, 0.6], [0.3, 0.7]))
    assert fit.raw_ms((0.5, 0.5)) == pytest.approx(50, rel=1e-12)  # 3 + (20 + 6) + (18 + 3).
    assert fit.intercept_ms == pytest.approx(3, rel=1e-12)
    assert doubles(fit.slopes) == pytest.approx([100, 20, 2, 60, 15, 1], rel=1e-8)
    assert float(fit.residual) < 1e-17
    affine = fitted(rows, epoch([], []))
    search = searched(rows)
    assert search.fit is not None
    assert search.fit.residual < 0.01 * affine.residual


def test_a_surface_with_three_knots_is_recovered() -> None:
    law = surface(([0.2, 0.5, 0.8], [0.1, 0.4, 0.7]), ([100, 40, 10, 2], [60, 20, 5, 1]), 3)
    fit = fitted([(a, t, law(a, t)) for a in TENTHS for t in TENTHS], epoch([0.2, 0.5, 0.8], [0.1, 0.4, 0.7]))
    assert fit.intercept_ms == pytest.approx(3, rel=1e-12)
    assert fit.raw_ms((0.6, 0.6)) == pytest.approx(49, rel=1e-12)  # 3 + (20 + 12 + 1) + (6 + 6 + 1).


def test_the_last_segment_goes_on_and_the_first_begins_at_nothing() -> None:
    law = surface(([1024, 2048, 4096], []), ([0.01, 0.02, 0.04, 0.03], [0]), 5)
    rows = [(float(x), 0.0, law(x, 0)) for x in range(512, 8193, 512)]
    fit = fitted(rows, epoch([1024, 2048, 4096], []))
    # 5 + 10.24 + 20.48 + 81.92 + 0.03*(65536-4096) = 1960.84; near nothing 5.01.
    assert fit.raw_ms((65_536, 0)) == pytest.approx(1960.84, rel=1e-12)
    assert fit.raw_ms((1, 0)) == pytest.approx(5.01, rel=1e-12)


def test_slopes_are_never_negative() -> None:
    fit = fitted([(float(x), 0.0, 20 - abs(x - 10)) for x in range(21)], epoch([10], []))
    # Up by 1 to the knot, then down: the falling piece gets 0 and the rising one what is best beside it.
    plain = np.polyfit([min(x, 10) for x in range(21)], [20 - abs(x - 10) for x in range(21)], 1)
    assert doubles(fit.slopes) == pytest.approx([plain[0], 0.0, 0.0], rel=1e-12)


def test_constant_columns_get_no_slope() -> None:
    rows = [(x, 8.0 + (x % 2) * 2e-15, 3 + 2 * x) for x in range(6)]
    assert condition(table(rows)[0], epoch([], [])) == Condition(1, 1)  # Rounding about 8 is no load.
    assert doubles(fitted(rows, epoch([], [])).slopes) == pytest.approx([2.0, 0.0], rel=1e-12)
    # No row lies past the knot at 5, and all lie past a knot at the smallest load.
    assert condition(table(rows)[0], epoch([5], [])) == Condition(1, 1)
    above = [(x + 1.0, 8.0, float(x)) for x in range(6)]
    assert condition(table(above)[0], epoch([1], [])) == Condition(1, 1)


def test_a_constant_target_gets_no_slope() -> None:
    fit = fitted([(x, 0.0, 12.1) for x in range(10)], epoch([3], []))
    assert (doubles(fit.slopes), fit.raw_ms((5, 0)), fit.ready) == ([0.0, 0.0, 0.0], 12.1, False)


def test_no_rows_and_sums_beyond_a_double_have_no_fit() -> None:
    assert fit_spline(np.zeros((0, 2), REAL), np.zeros(0, REAL), epoch([], [])) is None
    assert fit_spline(*table([(0, 0, float(np.finfo(np.float64).max)), (1, 1, 1)]), epoch([], [])) is None


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1.0, 1e9])
def test_the_unit_of_a_feature_does_not_matter(unit: float) -> None:
    random = np.random.default_rng(7)
    loads = random.integers(1, 40, (48, 2)).astype(float)
    rows = [(a, t, 5 + math.sqrt(a) * 9 + t + n) for (a, t), n in zip(loads, random.normal(size=48), strict=True)]
    base = searched(rows)
    scaled = searched([(a * unit, t, y) for a, t, y in rows])
    assert base.fit is not None and scaled.fit is not None
    assert doubles(scaled.epoch.knots[0]) == pytest.approx(doubles(base.epoch.knots[0]), rel=1e-12)
    assert float(scaled.epoch.scales[0]) == pytest.approx(float(base.epoch.scales[0]) * unit, rel=1e-12)
    for a, t in loads:
        assert scaled.fit.raw_ms((a * unit, t)) == pytest.approx(base.fit.raw_ms((a, t)), rel=1e-12)


# --- dependent columns ------------------------------------------------------------------------------------------


def unit_columns(*columns: Sequence[float]) -> Array:
    matrix = np.array(columns, REAL).T
    matrix = matrix - matrix.mean(axis=0)
    return np.asarray(matrix / np.sqrt((matrix * matrix).sum(axis=0)))


def test_of_equal_columns_the_first_carries_the_load() -> None:
    columns = unit_columns([1, 5, 2, 0], [0, 1, 2, 3], [0, 10, 20, 30])
    target = real([-3, -1, 1, 3])
    # The last two are the target's own direction, of length sqrt(20).
    assert doubles(nonnegative_least_squares(columns, target)) == pytest.approx([0, math.sqrt(20), 0], abs=1e-15)


def test_a_steepest_column_that_loses_its_load_to_its_parts() -> None:
    # The sum of two columns enters first, as it is the steepest; the parts follow. As the three are dependent, the
    # third to come is set aside: one of 1 and 2 beside 0, which cannot carry 2 a + b otherwise.
    a, b = [0, 1, 0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 0, 0, 1, 1]
    columns = unit_columns([x + y for x, y in zip(a, b, strict=True)], a, b)
    target = real(2 * x + y for x, y in zip(a, b, strict=True))
    target -= target.mean()
    coefficients = doubles(nonnegative_least_squares(columns, target))
    # b counts once and is in the sum once; the other a stands alone. Lengths: sum 2, a sqrt(2).
    assert coefficients == pytest.approx([2.0, math.sqrt(2), 0.0], abs=1e-15)


def test_a_column_that_must_go_makes_room_for_one_that_was_set_aside() -> None:
    random = np.random.default_rng(11)
    exchanges = 0
    for _ in range(300):
        parts = random.integers(0, 3, (3, 12)).astype(float)
        columns = np.array([*parts, parts[0] + parts[1], parts[1] + parts[2]]).T
        columns -= columns.mean(axis=0)
        if np.any(columns.std(axis=0) == 0.0):
            continue
        unit = (columns / np.sqrt((columns * columns).sum(axis=0))).astype(REAL)
        target = real(random.normal(size=12))
        target -= target.mean()
        coefficients = nonnegative_least_squares(unit, target)
        gradient = unit.T @ (target - unit @ coefficients)
        # A minimum although the five columns span only three directions.
        assert np.all(coefficients >= 0.0) and np.all(gradient < 1e-15)
        exchanges += bool(gradient[np.argmax(unit.T @ target)] < -1e-6)
    assert exchanges > 0  # In some, the first column to enter ended up unused.


def test_plain_corner_cases_of_the_solver() -> None:
    columns = unit_columns([0, 1, 2], [1, 0, 1])
    assert doubles(nonnegative_least_squares(columns, real([0, 0, 0]))) == [0, 0]
    # Against the first column and at a right angle to the other.
    assert doubles(nonnegative_least_squares(columns, real([1, 0, -1]))) == [0, 0]
    assert nonnegative_least_squares(np.zeros((3, 0), REAL), real([1, 0, -1])).size == 0


# --- knots ------------------------------------------------------------------------------------------------------


def test_quantiles_lie_between_order_statistics() -> None:
    values = real([0, 1, 4, 10])
    # Position 3/2 is halfway between 1 and 4, position 3*0.05 = 0.15 of the way from 0 to 1.
    assert [float(quantile(values, j, d)) for j, d in ((1, 2), (1, 20), (1, 3))] == pytest.approx([2.5, 0.15, 1.0])
    random = np.random.default_rng(3)
    other = np.unique(random.uniform(size=37))
    expected = np.quantile(other, [j / 20 for j in range(1, 20)])
    assert [float(quantile(other.astype(REAL), j, 20)) for j in range(1, 20)] == pytest.approx(expected, rel=1e-14)


def test_initial_knots_are_fewer_where_values_are_few() -> None:
    assert doubles(initial_knots(real([0, 0.5, 1]), 2)) == pytest.approx([2 / 3 * 0.5, 4 / 3 * 0.5])
    assert doubles(initial_knots(real([0, 0.5, 1]), 3)) == doubles(initial_knots(real([0, 0.5, 1]), 2))
    assert doubles(initial_knots(real([0.125, 1]), 3)) == [0.5625]  # Two batch sizes, 1 and 8: halfway.
    assert doubles(initial_knots(real([1]), 2)) == []


def test_zero_inflated_loads_get_knots_among_the_others() -> None:
    # 90 zeros and 1 to 10 are 11 values; thirds of them are at 10/3 and 20/3, where plain quantiles are 0.
    search = searched([(0.0, 0.0, 5.0)] * 54 + [(float(x), 0.0, 5.0 + x) for x in range(1, 11)])
    initial = initial_knots(real(x / 10 for x in range(11)), 2)
    assert doubles(initial) == pytest.approx([1 / 3, 2 / 3])
    assert search.fit is not None and float(search.fit.residual) == pytest.approx(0, abs=1e-25)
    assert doubles(search.epoch.knots[0]) == doubles(initial)  # A straight line gains nothing by moving them.


def test_the_grid_of_candidates() -> None:
    grid = doubles(candidate_knots(real([0, 0.01, 1])))
    # Quantiles at positions j/10: up to the middle on the first half, then past it. The geometric ones are
    # 0.01 * 100**(j/18).
    expected = [0.001 * j for j in range(1, 11)] + [0.01 + 0.099 * (j - 10) for j in range(11, 20)]
    expected += [0.01 * 100 ** (j / 18) for j in range(1, 18)]
    assert grid == pytest.approx(sorted(expected), rel=1e-12)
    assert doubles(candidate_knots(real([0]))) == [0]
    # The least value counts as 1e-8 when it is smaller.
    tiny = doubles(candidate_knots(real([1e-12, 1])))
    assert min(x for x in tiny if x < 0.04) == pytest.approx(1e-8 ** (17 / 18), rel=1e-12)


def test_a_bend_is_found() -> None:
    # Steps of 1/20 put a candidate on the bend at 0.3; the other knot is free to stay or move.
    rows = [(x / 20, 0.0, 10 + 40 * min(x / 20, 0.3) + 5 * max(x / 20 - 0.3, 0)) for x in range(21)]
    search = searched(rows)
    assert search.fit is not None and float(search.fit.residual) < 1e-20
    assert any(float(knot) == pytest.approx(0.3, rel=1e-12) for knot in search.epoch.knots[0])
    # One fit at first, then two sweeps over two knots of at most 36 candidates.
    assert 1 < search.fits <= 1 + 2 * 2 * 36


def test_gains_of_rounding_move_no_knot() -> None:
    rows = [(x / 7, 0.0, 10 + x / 7) for x in range(40)]
    search = searched(rows)
    assert doubles(search.epoch.knots[0]) == pytest.approx([1 / 3, 2 / 3], rel=1e-14)
    assert search.closest == pytest.approx(1e-10, rel=1e-6)  # All residuals are equal.


def test_earlier_knots_are_kept_where_they_are_better() -> None:
    bend = 0.137  # No candidate is there.
    rows = [(x / 400, 0.0, 10 + 40 * min(x / 400, bend) + 5 * max(x / 400 - bend, 0)) for x in range(401)]
    alone = searched(rows)
    assert alone.fit is not None and float(alone.fit.residual) > 1e-6
    # In the earlier epoch the load was counted over a scale of 4.
    earlier = epoch([bend / 4, 0.2], [], (4.0, 1.0))
    kept = searched(rows, previous=earlier)
    assert kept.fit is not None and float(kept.fit.residual) < 1e-20
    assert float(kept.epoch.knots[0][0]) == pytest.approx(bend, rel=1e-12)
    assert kept.epoch.scales[0] == 1.0
    # With another number of knots they are not looked at.
    other = searched(rows, previous=epoch([bend / 4], [], (4.0, 1.0)))
    assert doubles(other.epoch.knots[0]) == doubles(alone.epoch.knots[0])


def test_axes_of_few_values_get_few_knots_and_constant_targets_no_spline() -> None:
    constant = searched([(0.0, float(i % 3), 10.0) for i in range(40)], knots_per_axis=3)
    assert [len(line) for line in constant.epoch.knots] == [0, 2]  # One value and three values.
    assert constant.fit is not None and not constant.fit.ready
    assert constant.fit.raw_ms((0.0, 1.0)) == 10.0
    falling = searched([(0.0, float(i % 3), 100.0 - i) for i in range(40)], knots_per_axis=3)
    assert falling.fit is not None and not falling.fit.ready
    assert falling.fit.raw_ms((0.0, 1.0)) == pytest.approx(80.5, rel=1e-15)  # The mean of 100 to 61.


# --- schedule ---------------------------------------------------------------------------------------------------


def store_of(
    schedule: Schedule, max_observations: int = 64, bins: tuple[int, int] = (4, 4), min_observations: int = 5
) -> SplineStore:
    return SplineStore(Retention(bins, max_observations), schedule, min_observations=min_observations)


@pytest.mark.parametrize("step", [8, 16, 32, 64, 128])
def test_periodic_searches_are_counted(step: int) -> None:
    store = store_of(Periodic(step), max_observations=32)
    for i in range(1, 200):
        store.learn((7.0, 2.0), 10.0)
        # The first at 32, then one at each multiple of the step past 32.
        assert store.knot_searches == (0 if i < 32 else 1 + i // step - 32 // step)
    assert store.last_search == 199 // step * step


def test_the_first_search_waits_for_the_least_number_of_observations() -> None:
    store = store_of(Periodic(8), min_observations=40)
    for i in range(1, 49):
        store.learn((7.0, 2.0), 10.0)
        assert store.knot_searches == (0 if i < 40 else 1 if i < 48 else 2)
    assert not due(Periodic(8), accepted=48, retained=39, last_search=40, min_observations=40)


def test_an_adaptive_search_needs_time_and_bad_forecasts() -> None:
    schedule = Adaptive()
    for _ in range(8):
        schedule.note(20.0, 10.0)
    assert not due(schedule, accepted=95, retained=64, last_search=32, min_observations=5)
    schedule.note(10.0, 10.0)  # The last need not be bad.
    assert due(schedule, accepted=96, retained=64, last_search=32, min_observations=5)
    schedule.searched()
    assert not due(schedule, accepted=160, retained=64, last_search=96, min_observations=5)
    for _ in range(7):
        schedule.note(20.0, 10.0)
    assert not due(schedule, accepted=200, retained=64, last_search=96, min_observations=5)


def test_bad_forecasts_leave_the_window() -> None:
    schedule = Adaptive()
    for _ in range(8):
        schedule.note(20.0, 10.0)
    for _ in range(9):
        # After eight good ones the window of sixteen is full, the ninth pushes a bad one out.
        assert schedule.due_again(accepted=1000, last_search=32)
        schedule.note(10.0, 10.0)
    assert not schedule.due_again(accepted=1000, last_search=32)


@pytest.mark.parametrize(
    ("prior_ms", "observed_ms", "bad"),
    [
        (11.0, 10.0, False),  # Just the absolute tolerance of 1 ms.
        (11.0 + 1e-9, 10.0, True),
        (9.0, 10.0, False),
        (-10.0, 0.5, True),  # Negative as the spline is, not as it would be served.
        (105.0, 100.0, False),  # Just 5 % of what was observed.
        (105.0 + 1e-9, 100.0, True),
        (95.0, 100.0, False),
        (100.0, 95.1, True),  # Above 5 % of 95.1, though not of 100.
    ],
)
def test_what_is_a_bad_forecast(prior_ms: float, observed_ms: float, bad: bool) -> None:
    schedule = Adaptive(trigger=1)
    schedule.note(prior_ms, observed_ms)
    assert schedule.due_again(accepted=1000, last_search=32) == bad


def test_a_changed_duration_is_met_at_the_end_of_the_cooldown() -> None:
    store = store_of(Adaptive())
    for i in range(96):
        store.learn((float(i % 7), 1.0), 10.0 if i < 40 else 20.0 if i % 2 else 40.0)
        assert store.knot_searches == (0 if i < 31 else 1 if i < 95 else 2)
    assert store.last_search == 96


# --- store ------------------------------------------------------------------------------------------------------


def decode(context: int, milliseconds: float = 0.0, requests: int = 1) -> list[RankRecord]:
    return [RankRecord(num_decode_requests=requests, sum_decode_kv_tokens=context, wall_time_s=milliseconds / 1000)]


def only_store(forecaster: Forecaster) -> SplineStore:
    (store,) = forecaster.stores.values()
    assert isinstance(store, SplineStore)
    return store


@pytest.mark.parametrize("fit", [SPLINE, SPLINE_PERIODIC])
def test_nothing_answers_where_the_linear_model_does_not(fit: str) -> None:
    forecaster = Forecaster(fit=fit)
    for context in range(32):
        forecaster.observe(decode(context, 100.0 if context == 0 else 1.0 if context < 24 else 10.0))
    store = only_store(forecaster)
    # A spike at no load makes the line fall; the spline has a rise from 23 to 24 to show.
    assert store.ready
    assert {forecaster.forecast(decode(context)) for context in range(50)} == {Forecast(None, None, NO_LOAD_SIGNAL)}
    answered = 0
    for context in range(32, 120):
        forecaster.observe(decode(context, float(context)))
        for query in (5, 28, context, context + 1):
            linear = store.model.predict_ms((float(query), 1.0))
            forecast = forecaster.forecast(decode(query))
            assert (forecast.value_ms is None) == (linear is None)
            answered += linear is not None
    assert answered > 300


def test_a_line_that_load_no_longer_explains_is_not_kept() -> None:
    linear, spline = Forecaster(), Forecaster(fit=SPLINE)
    for context in range(10):
        for forecaster in (linear, spline):
            forecaster.observe(decode(context, 1.0 + context if context < 6 else 0.1))
    assert linear.forecast(decode(3)).source == LINEAR
    assert spline.forecast(decode(3)) == Forecast(None, None, NO_LOAD_SIGNAL)


def test_constant_load_starts_an_epoch_without_knots() -> None:
    store = store_of(Periodic(10_000))
    for _ in range(40):
        store.learn((50.0, 4.0), 10.0)
    assert store.diagnostics() == {
        "initialized": True,
        "ready": False,
        "accepted_observations": 40,
        "knot_searches": 1,
        "last_search_observation": 32,
        "knots": [[], []],
    }
    assert store.forecast((50.0, 4.0)) == Forecast(None, None, CONSTANT_LOAD)
    for i in range(11):
        store.learn((50.0 + i, 4.0), 10.0 + i)
    assert (store.ready, store.knot_searches) == (True, 1)
    assert store.forecast((55.0, 4.0)).source == SPLINE


def test_the_box_is_that_of_the_rows_that_are_left() -> None:
    store = store_of(Periodic(), max_observations=32, bins=(1, 1))
    for x in range(33):
        store.learn((float(x), 0.0), 10.0 + x * x / 100)
        if x == 31:
            assert store.forecast((0.0, 0.0)).source == SPLINE
    # One cell keeps the last 32 rows, so 0 has gone and 32 has come: the box is 1 to 32 and includes both.
    sources = {x: store.forecast((x, 0.0)).source for x in (0.0, 0.999, 1.0, 32.0, 32.001)}
    assert sources == {0.0: LINEAR, 0.999: LINEAR, 1.0: SPLINE, 32.0: SPLINE, 32.001: LINEAR}
    assert store.forecast((5.0, 1e-9)).source == LINEAR


def test_knots_stay_between_searches_and_the_fit_is_that_of_the_rows_left() -> None:
    store = store_of(Periodic(64), max_observations=32)
    random = np.random.default_rng(5)
    for i in range(1, 129):
        load = (float(random.integers(1, 2000)), float(random.integers(1, 9)))
        store.learn(load, 5 + load[0] / 100 + load[1])
        if i in (32, 64, 128):
            at = store.epoch
        if i >= 32:
            assert store.epoch is at and at is not None
            rows = [(row.features[0], row.features[1], row.target_ms) for row in store.retention.rows]
            expected = fitted(rows, at)
            assert store.fit is not None and np.array_equal(store.fit.slopes, expected.slopes)
    assert store.knot_searches == 3


def test_served_answers_have_a_floor_and_the_monitor_sees_what_is_below() -> None:
    store = store_of(Adaptive(), max_observations=64)
    for x in range(32):
        # Durations that fall below 0 are not real; they make the spline negative at small loads.
        store.learn((float(x), 0.0), float(x - 10))
    assert store.fit is not None and store.fit.raw_ms((0.0, 0.0)) == pytest.approx(-10, rel=1e-12)
    assert store.forecast((0.0, 0.0)) == Forecast(1e-6, SPLINE, None)


def test_the_linear_fit_is_the_same_under_every_name_and_has_no_spline() -> None:
    named, unnamed = Forecaster(bins=(1, 1), fit=LINEAR), Forecaster(bins=(1, 1))
    for i in range(89):
        ranks = decode(1000 + 37 * (i % 23), 8.0 + i % 23 + i % 5, 1 + i % 8)
        assert named.forecast(ranks) == unnamed.forecast(ranks)
        named.observe(ranks)
        unnamed.observe(ranks)
    assert named.retained == unnamed.retained == 64  # One cell of 64 rows.
    assert not any(isinstance(store, SplineStore) for store in named.stores.values())
    with pytest.raises(ValueError, match="expected one of"):
        Forecaster(fit="cubic").observe(decode(1, 1.0))
    assert FITS == (LINEAR, SPLINE, SPLINE_PERIODIC)


def test_numbers_are_wider_than_doubles_here() -> None:
    if np.finfo(REAL).eps >= np.finfo(np.float64).eps:
        pytest.skip("this platform has no number wider than a double; the oracle is only as good as doubles")
    assert np.finfo(REAL).eps < 1e-18
