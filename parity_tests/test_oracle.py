"""Tests of the oracle itself, against values worked out by hand and against SciPy where doubles suffice."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import nnls  # type: ignore[import-untyped]

from oracle.faces import choose_face
from oracle.forecaster import Forecaster
from oracle.linear import CONSTANT_LOAD, NO_LOAD_SIGNAL, UNSOLVABLE, FitOutcome, LinearFit, LinearModel, fit_rows
from oracle.moments import moments_of
from oracle.record import InvalidRecord, RankRecord
from oracle.replay import replay
from oracle.retention import Retention
from oracle.traces import read_recording, recordings_folder
from oracle.workload import (
    CROSS_RANK,
    IDLE,
    LOCALLY_MIXED,
    PURE_DECODE,
    PURE_PREFILL,
    Features,
    RejectedObservation,
    Weights,
    check_iteration,
    duration_ms,
    features_of,
    kind_of,
)

U32_MAX = 2**32 - 1
F64_MAX = float(np.finfo(np.float64).max)

Observation = tuple[float, float, float]


def prefill(requests: int, tokens: int, cached: int = 0, wall_time_s: float = 0.0) -> RankRecord:
    return RankRecord(
        num_prefill_requests=requests,
        sum_prefill_tokens=tokens,
        sum_prefill_kv_tokens=cached,
        wall_time_s=wall_time_s,
    )


def decode(requests: int, context: int, wall_time_s: float = 0.0) -> RankRecord:
    return RankRecord(num_decode_requests=requests, sum_decode_kv_tokens=context, wall_time_s=wall_time_s)


def usable_fit(rows: Iterable[Observation], min_observations: int = 5) -> LinearFit:
    outcome = fit_rows(list(rows), min_observations)
    assert outcome.fit is not None, outcome.reason
    return outcome.fit


# --- features ---------------------------------------------------------------------------------------------------


def test_prefill_features_compose_per_rank_and_do_not_depend_on_rank_order() -> None:
    ranks = [prefill(1, 10, 90), prefill(2, 20, 40)]
    # Rank one: 90*10/1 + 100/2 + 10/2 = 955 pairs; rank two: 40*20/2 + 400/4 + 20/2 = 510 pairs.
    # Scores with cached tokens: 90+955 = 1045 and 40+510 = 550; tokens 10+20.
    assert features_of(ranks, "prefill") == (1045.0, 30.0)
    # Twice 90 plus half of 955 = 657.5; three times 30 = 90.
    weights = Weights(attention_kv=2.0, prefill_attention_pair=0.5, ffn_token=3.0)
    assert features_of(ranks, "prefill", weights) == (657.5, 90.0)
    assert features_of(ranks[::-1], "prefill", weights) == (657.5, 90.0)


def test_decode_features() -> None:
    ranks = [decode(2, 100), decode(3, 80)]
    assert features_of(ranks, "decode") == (100.0, 5.0)  # Larger context; 2+3 requests.
    assert features_of(ranks, "decode", Weights(attention_kv=2.0, ffn_token=3.0)) == (200.0, 15.0)


def test_aggregated_features_ignore_cached_tokens_without_fresh_ones() -> None:
    busy = RankRecord(
        num_prefill_requests=1,
        sum_prefill_tokens=10,
        sum_prefill_kv_tokens=90,
        num_decode_requests=2,
        sum_decode_kv_tokens=20,
    )
    cached = RankRecord(
        num_prefill_requests=1, sum_prefill_kv_tokens=500, num_decode_requests=3, sum_decode_kv_tokens=200
    )
    # 90 + 20 + 955 pairs = 1065, above the other rank's 200; tokens 10 + 2 + 3.
    assert features_of([busy, cached], "aggregated") == (1065.0, 15.0)
    # 2*(90+20) + 955/2 = 697.5; 3*15 = 45.
    weights = Weights(attention_kv=2.0, prefill_attention_pair=0.5, ffn_token=3.0)
    assert features_of([busy, cached], "aggregated", weights) == (697.5, 45.0)


def test_largest_counters_stay_finite() -> None:
    everything = RankRecord(
        num_prefill_requests=U32_MAX,
        sum_prefill_tokens=U32_MAX,
        sum_prefill_kv_tokens=U32_MAX,
        num_decode_requests=U32_MAX,
        sum_decode_kv_tokens=U32_MAX,
    )
    attention, ffn = features_of([everything], "aggregated")
    assert math.isfinite(attention)
    assert ffn == 2.0 * U32_MAX  # Fresh tokens plus decode requests.
    largest = float(U32_MAX)
    attention, ffn = features_of([prefill(1, U32_MAX, U32_MAX), prefill(1, U32_MAX)], "prefill")
    # Cached tokens, then cached*fresh + fresh^2/2 + fresh/2 pairs of one request.
    assert attention == pytest.approx(largest + largest**2 + largest**2 / 2 + largest / 2, rel=1e-15)
    assert ffn == 2.0 * largest


def test_overflowing_weights_are_an_error_and_retain_nothing() -> None:
    forecaster = Forecaster("aggregated", Weights(F64_MAX, F64_MAX, F64_MAX))
    ranks = [prefill(1, 2, 2, 0.010)]
    with pytest.raises(InvalidRecord):
        forecaster.forecast(ranks)
    with pytest.raises(InvalidRecord):
        forecaster.observe(ranks)
    assert forecaster.retained == 0


@pytest.mark.parametrize("role", ["prefill", "decode", "aggregated"])
def test_cached_prefill_alone_is_idle(role: str) -> None:
    ranks = [prefill(1, 0, 4096)]
    assert kind_of(ranks) == IDLE
    assert Forecaster(role).forecast(ranks).value_ms == 0.0
    if role != "prefill":
        # Beside a decode batch of 2 with 100 tokens of context only the decode counts.
        assert features_of([replace(ranks[0], num_decode_requests=2, sum_decode_kv_tokens=100)], role) == (100.0, 2.0)


@pytest.mark.parametrize(
    ("role", "ranks"),
    [
        ("prefill", [decode(1, 10)]),
        ("decode", [prefill(1, 10)]),
        ("aggregated", []),
        ("aggregated", [RankRecord(version=999)]),
        ("aggregated", [RankRecord(sum_prefill_tokens=10)]),
        ("aggregated", [RankRecord(sum_prefill_kv_tokens=10)]),
        ("aggregated", [RankRecord(sum_decode_kv_tokens=10)]),
    ],
)
def test_refused_iterations_retain_nothing(role: str, ranks: list[RankRecord]) -> None:
    forecaster = Forecaster(role)
    with pytest.raises(InvalidRecord):
        forecaster.forecast(ranks)
    with pytest.raises(InvalidRecord):
        forecaster.observe(ranks)
    assert forecaster.retained == 0


def test_kinds() -> None:
    both = RankRecord(num_prefill_requests=1, sum_prefill_tokens=1, num_decode_requests=1)
    assert kind_of([RankRecord()]) == IDLE
    assert kind_of([decode(1, 0), RankRecord()]) == PURE_DECODE
    assert kind_of([prefill(1, 1), prefill(1, 0, 50)]) == PURE_PREFILL
    assert kind_of([both, RankRecord()]) == kind_of([RankRecord(), both]) == LOCALLY_MIXED
    assert kind_of([prefill(1, 1), decode(1, 0)]) == CROSS_RANK


def test_attention_is_composed_before_the_maximum_over_ranks() -> None:
    heavy_prefill, heavy_decode = prefill(1, 1000), decode(10, 50_000)
    # One rank has 1000^2/2 + 1000/2 = 500500 pairs, the other 50000 tokens; adding the two maxima would give 550500.
    expected: Features = (500_500.0, 1010.0)
    ranks = [heavy_prefill, heavy_decode]
    assert features_of(ranks, "aggregated") == expected
    assert features_of(ranks[::-1], "aggregated") == expected
    assert features_of([*ranks, RankRecord(), prefill(1, 0, 4096)], "aggregated") == expected
    with pytest.raises(InvalidRecord, match="num_prefill_requests"):
        check_iteration([RankRecord(sum_prefill_tokens=10)], "aggregated")


# --- target and rejections --------------------------------------------------------------------------------------


def test_duration_is_the_slowest_usable_clock_of_all_ranks() -> None:
    ranks = [decode(1, 1, math.nan), decode(1, 1, 0.010), RankRecord(wall_time_s=0.020), decode(1, 1, math.inf)]
    assert duration_ms(ranks) == 20.0  # The idle rank's 0.020 s; NaN and infinity are passed over.


@pytest.mark.parametrize(
    ("wall_time_s", "reason"),
    [
        (0.0, "no_positive_time"),
        (-1.0, "no_positive_time"),
        (math.nan, "no_positive_time"),
        (math.inf, "no_positive_time"),
        (3600.012, "implausible_duration"),
        (F64_MAX, "implausible_duration"),
    ],
)
def test_rejected_durations_are_counted_and_change_nothing(wall_time_s: float, reason: str) -> None:
    forecaster = Forecaster()
    with pytest.raises(RejectedObservation) as rejection:
        duration_ms([decode(1, 1, wall_time_s)])
    assert rejection.value.reason == reason
    forecaster.observe([decode(1, 1, wall_time_s)])
    assert (forecaster.retained, dict(forecaster.rejected)) == (0, {reason: 1})


def test_only_work_with_a_duration_is_retained() -> None:
    forecaster = Forecaster("prefill")
    for ranks in (
        [prefill(1, 10, 0, 0.0)],
        [prefill(1, 10, 0, F64_MAX)],
        [RankRecord(wall_time_s=0.010)],
        [prefill(1, 0, 10, 0.010)],
        [prefill(1, 10, 0, 0.010)],
        [prefill(1, 20, 0, 0.020)],
    ):
        forecaster.observe(ranks)
    assert forecaster.retained == 2  # The last two; no clock, too long a time, idle and cached-only before them.
    assert dict(forecaster.rejected) == {"no_positive_time": 1, "implausible_duration": 1}


# --- stores -----------------------------------------------------------------------------------------------------


def decode_iteration(attention: int, tokens: int) -> list[RankRecord]:
    return [decode(tokens, attention)]


def mixed_iteration(attention: int, tokens: int) -> list[RankRecord]:
    # One fresh token of one request is one pair, so context makes up the rest of the attention.
    return [
        RankRecord(
            num_prefill_requests=1,
            sum_prefill_tokens=1,
            num_decode_requests=tokens - 1,
            sum_decode_kv_tokens=attention - 1,
        )
    ]


def cross_rank_iteration(attention: int, tokens: int) -> list[RankRecord]:
    return [prefill(1, 1), decode(tokens - 1, attention)]


def prefill_iteration(attention: int, tokens: int) -> list[RankRecord]:
    # Attention of one request is H + H*P + P^2/2 + P/2, which gives the cached tokens H.
    cached, rest = divmod(attention - tokens * (tokens + 1) // 2, tokens + 1)
    assert rest == 0
    return [prefill(1, tokens, cached)]


SHAPES: dict[str, Callable[[int, int], list[RankRecord]]] = {
    PURE_DECODE: decode_iteration,
    LOCALLY_MIXED: mixed_iteration,
    CROSS_RANK: cross_rank_iteration,
    PURE_PREFILL: prefill_iteration,
}


def test_each_kind_has_a_store_of_its_own() -> None:
    forecaster = Forecaster()
    for number, (kind, shape) in enumerate(SHAPES.items(), start=1):
        query = shape(14, 3)
        assert kind_of(query) == kind
        assert features_of(query, "aggregated") == (14.0, 3.0)
        assert forecaster.forecast(query).reason == "cold"
        for attention, tokens in ((3, 2), (6, 3), (6, 2), (10, 4), (10, 3)):
            milliseconds = 10 * number + 2 * attention + 3 * tokens
            ranks = shape(attention, tokens)
            ranks[0] = replace(ranks[0], wall_time_s=milliseconds / 1000)
            forecaster.observe(ranks)
        # 10c + 2*14 + 3*3: 47, 57, 67 and 77 ms; one pooled fit would say 62.
        assert forecaster.forecast(query).value_ms == pytest.approx(10 * number + 37, rel=1e-12)


# --- retention --------------------------------------------------------------------------------------------------


def test_rows_move_when_the_bounds_widen() -> None:
    retention = Retention((2, 2), 10)
    retention.insert((0.0, 0.0), 0.0)
    retention.insert((1.0, 1.0), 0.0)
    assert retention.cell_of(retention.rows[1]) == (1, 1)  # ln 2 is the upper bound.
    retention.insert((15.0, 15.0), 0.0)
    assert retention.cell_of(retention.rows[1]) == (0, 0)  # ln 2 is a quarter of ln 16.


def test_bounds_do_not_shrink_on_eviction() -> None:
    retention = Retention((2, 2), 4)
    for features in ((0.0, 0.0), (1e6, 1e6), (2000.0, 2000.0), (3000.0, 3000.0)):
        assert retention.insert(features, 0.0) is None
    # Half of ln(1+1e6) is 6.9: 2000 and 3000 (7.6, 8.0) share the upper cell with 1e6, which is the oldest there.
    evicted = retention.insert((100.0, 0.0), 0.0)
    assert evicted is not None and evicted.features == (1e6, 1e6)
    assert retention.rows[0].features == (0.0, 0.0)
    retention.insert((100.0, 100.0), 0.0)
    # ln 101 = 4.6 lies below 6.9; with the bound at 3000 it would lie above 4.0.
    assert retention.cell_of(retention.rows[-1]) == (0, 0)


@pytest.mark.parametrize(("bins", "width"), [((2, 3), 2), ((2, 3, 4), 3)])
def test_the_oldest_row_of_the_fullest_cell_leaves(bins: tuple[int, ...], width: int) -> None:
    retention = Retention(bins, 4)
    for value in (0.0, 10.0, 7.0, 8.0):
        retention.insert((value,) * width, 0.0)
    # 10, 7 and 8 share the last cell on every axis (ln 8 is 87 % of ln 11); 10 arrived first.
    evicted = retention.insert((2.0, *(0.0,) * (width - 1)), 0.0)
    assert evicted is not None and evicted.arrival == 1


def test_one_cell_is_a_queue() -> None:
    retention = Retention((1, 1), 3)
    evicted = [retention.insert((float(value), 0.0), 0.0) for value in range(6)]
    assert [row.arrival for row in evicted if row] == [0, 1, 2]
    assert [row.arrival for row in retention.rows] == [3, 4, 5]


def test_among_equal_cells_the_one_with_the_oldest_row_is_thinned() -> None:
    retention = Retention((4, 4), 3)
    for value in (3.0, 0.0, 1e6):
        retention.insert((value, value), 0.0)
    # Four cells of one row each; the first to arrive leaves, not the newcomer.
    evicted = retention.insert((1000.0, 1000.0), 0.0)
    assert evicted is not None and evicted.arrival == 0


def test_a_newcomer_alone_in_the_fullest_cell_leaves_only_when_it_is_the_oldest_there() -> None:
    retention = Retention((1, 1), 1)
    retention.insert((1.0, 1.0), 0.0)
    evicted = retention.insert((2.0, 2.0), 0.0)
    assert evicted is not None and evicted.arrival == 0


# --- moments ----------------------------------------------------------------------------------------------------


def floats(values: Iterable[Fraction]) -> list[float]:
    return [float(value) for value in values]


def test_moments_by_hand() -> None:
    rows: list[Observation] = [(0, 0, 1), (2, 0, 5)]
    first = moments_of(rows)
    assert floats(first.means) == [1, 0, 3]
    assert [floats(line) for line in first.scatter] == [[2, 0, 4], [0, 0, 0], [4, 0, 8]]  # Deviations ±1, 0 and ±2.
    second = moments_of([*rows, (4, 0, 9)])
    assert floats(second.means) == [2, 0, 5]
    assert floats(second.scatter[0]) == [8, 0, 16]  # Two deviations of ±2 against ±4.
    assert second.scatter[2][2] == 32
    third = moments_of([(2, 0, 5), (4, 0, 9)])
    assert floats(third.means) == [3, 0, 7]
    assert third.scatter == first.scatter


def test_moments_of_a_queue_of_five() -> None:
    retention = Retention((1, 1), 5)
    for value in range(6):
        retention.insert((float(value), float(value * value)), 0.0)
    moments = moments_of([(*row.features, row.target_ms) for row in retention.rows])
    assert floats(moments.means[:2]) == [3, 11]  # Means of 1..5 and of 1, 4, 9, 16, 25.
    assert moments.variance(0) == 2  # Mean of 4, 1, 0, 1, 4.


def test_a_glitch_that_left_leaves_no_trace() -> None:
    retention = Retention((1, 1), 6)
    retention.insert((1e12, 1e6), 1e12)
    for value in range(1, 7):
        retention.insert((10.0, float(value)), 2.0 + 4.0 * value)
    rows = [(row.features[0], row.features[1], row.target_ms) for row in retention.rows]
    assert moments_of(rows).scatter[0][0] == 0  # Only the constant 10 is left on that axis.
    assert usable_fit(rows).slopes == (0.0, 4.0)  # The line that made the rows.


# --- linear fit -------------------------------------------------------------------------------------------------

PLANE_POINTS = ((1, 2), (2, 7), (4, 3), (8, 11), (16, 5), (32, 13))


def test_a_plane_is_recovered() -> None:
    fit = usable_fit((a, t, 7 + 2.5 * a + 4 * t) for a, t in PLANE_POINTS)
    assert fit.raw_ms((64, 17)) == 235.0  # 7 + 160 + 68.
    assert fit.slopes == (2.5, 4.0)


def test_a_plane_is_recovered_at_large_attention() -> None:
    fit = usable_fit((1e12 * a, t, 11 + 1e-9 * (1e12 * a) + 3 * t) for a, t in PLANE_POINTS)
    assert fit.raw_ms((6.4e13, 17)) == pytest.approx(64_062.0, rel=1e-12)  # 11 + 64000 + 51.


def test_a_constant_axis_gets_no_slope() -> None:
    fit = usable_fit((i, 7, 2 + 4 * i) for i in range(1, 7))
    assert fit.slopes == (4.0, 0.0)
    assert fit.raw_ms((10, 70)) == 42.0  # 2 + 40.


def test_a_negative_slope_is_replaced_by_a_refit_without_that_axis() -> None:
    fit = usable_fit((a, t, 20 - 2 * a + 3 * t) for a in range(3) for t in range(3))
    assert fit.slopes == (0.0, 3.0)  # Balanced grid: dropping one axis leaves the other slope as it was.
    # Mean duration is 20 - 2 + 3 = 21 at one token: 21 + 3*(4-1) and 21 - 3.
    assert fit.raw_ms((100, 4)) == 30.0
    assert fit.raw_ms((0, 0)) == 18.0


def test_served_answers_have_a_floor() -> None:
    model = LinearModel()
    model.update([(float(x), 0.0, float(x - 5)) for x in range(6, 11)])
    assert model.predict_ms((1.0, 0.0)) == 1e-6  # The line says 1 - 5 = -4 ms.
    assert model.fit is not None and model.fit.raw_ms((1.0, 0.0)) == -4.0


@pytest.mark.parametrize("query", [(-1.0, 0.0), (math.nan, 0.0), (0.0, math.inf)])
def test_invalid_queries_have_no_answer(query: Features) -> None:
    model = LinearModel()
    model.update([(float(x), 0.0, float(x)) for x in range(1, 7)])
    assert model.predict_ms(query) is None


def test_collinear_axes_leave_the_slope_to_attention() -> None:
    fit = usable_fit((a, 2 * a, 7 + 3 * a) for a in range(1, 7))
    assert fit.choice.one_minus_rho2 == 0
    assert fit.choice.single_axis_tie
    assert fit.slopes == (3.0, 0.0)
    assert fit.raw_ms((7, 14)) == 28.0  # 7 + 21, on the line that made the rows.


def test_nearly_collinear_axes_are_solved_exactly() -> None:
    rows = [(float(a), 1e4 * a + a % 2, 5 + 2e4 * a + 3 * (1e4 * a + a % 2)) for a in range(1, 9)]
    fit = usable_fit(rows)
    # The even-odd half of the second axis is 0.25 of a variance of 5.25e8: about 4.8e-10 sets the axes apart.
    assert fit.choice.one_minus_rho2 is not None and float(fit.choice.one_minus_rho2) == pytest.approx(4.8e-10, rel=0.1)
    assert fit.slopes == (2e4, 3.0)  # The plane that made the rows, whose numbers are all whole.
    assert fit.raw_ms((0, 0)) == 5.0


def test_axes_apart_by_less_than_the_bound_count_as_collinear() -> None:
    # As above with 1e7 for 1e4: about 4.8e-16 sets the axes apart, so only one of them may carry the load.
    fit = usable_fit((float(a), 1e7 * a + a % 2, 5 + 2e7 * a + 3 * (1e7 * a + a % 2)) for a in range(1, 9))
    assert fit.choice.face.axes == (0,)
    assert fit.choice.single_axis_tie


def test_a_second_axis_that_gains_nothing_is_left_out() -> None:
    # On the plane 3e4*a + 2*t, the part of t that is not a moves the target by 1e-3, about 1e-8 of its spread.
    rows = [(float(a), a + (a % 2) * 1e-3, 3e4 * a + 2 * (a + (a % 2) * 1e-3)) for a in range(1, 9)]
    assert usable_fit(rows).choice.face.axes == (0,)


def failure(rows: Iterable[Observation], min_observations: int = 5) -> str | None:
    outcome: FitOutcome = fit_rows(list(rows), min_observations)
    assert outcome.fit is None
    return outcome.reason


def test_failures_are_told_apart() -> None:
    assert failure((3, 4, 10 + i) for i in range(6)) == CONSTANT_LOAD
    assert failure((x, 0, 100 - x) for x in range(6)) == NO_LOAD_SIGNAL
    falling: list[Observation] = [(1000, 1, 40), (2000, 2, 30), (4100, 4, 20), (7900, 8, 10)]
    assert failure(falling) == "cold"  # Four rows, five wanted.
    assert failure(falling, 4) == NO_LOAD_SIGNAL
    assert failure([(0, 0, F64_MAX), (1, 1, 1)], 2) == UNSOLVABLE  # The scatter of the target overflows a double.


def test_no_more_rows_than_axes_may_answer_flat() -> None:
    fit = usable_fit([(0, 0, 2), (1, 1, 1)], 2)
    assert fit.raw_ms((5, 5)) == 1.5  # No slope may be negative, so the mean of 2 and 1.
    assert failure([(0, 0, 2), (1, 0, 1)], 2) == NO_LOAD_SIGNAL


def test_load_that_explains_nothing_keeps_the_earlier_fit_and_other_failures_drop_it() -> None:
    rising = [(float(x), 0.0, float(x)) for x in range(1, 6)]
    falling = [(float(x), 0.0, float(9 - x)) for x in range(1, 6)]
    model = LinearModel()
    model.update(falling)
    assert (model.predict_ms((7.0, 0.0)), model.reason) == (None, NO_LOAD_SIGNAL)
    model.update(rising)
    assert model.predict_ms((7.0, 0.0)) == 7.0
    model.update(falling)
    assert model.predict_ms((7.0, 0.0)) == 7.0
    model.update([(1.0, 1.0, float(x)) for x in range(5)])
    assert (model.predict_ms((7.0, 0.0)), model.reason) == (None, CONSTANT_LOAD)
    model.update(falling)
    assert (model.predict_ms((7.0, 0.0)), model.reason) == (None, NO_LOAD_SIGNAL)


def test_a_spike_at_no_load_hides_the_rise() -> None:
    forecaster = Forecaster("decode")
    for context in range(32):
        milliseconds = 100.0 if context == 0 else 1.0 if context < 24 else 10.0
        forecaster.observe([decode(1, context, milliseconds / 1000)])
    # Covariance sum: 100*(-15.5) + 1*(276-23*15.5) + 10*(220-8*15.5) = -670.5 < 0; it was negative all along.
    assert forecaster.forecast([decode(1, 10)]).reason == NO_LOAD_SIGNAL


# --- reported cases ---------------------------------------------------------------------------------------------


def residual_ms2(fit: LinearFit, rows: Iterable[Observation]) -> float:
    return sum((fit.raw_ms((a, t)) - y) ** 2 for a, t, y in rows)


def test_negative_decode_slope_is_solved_for_not_clamped() -> None:
    # Attention is the context, the FFN axis the batch. Reported: least squares 5.649, -0.1196 a request, 0.0010858 a
    # token; constrained 5.4403 and 0.00099194, residual 0.156; clamping would leave 77.9.
    rows: list[Observation] = [(8000, 8, 13.2), (20000, 16, 25.6), (36000, 32, 41.0), (80000, 64, 84.8)]
    design = np.array([[1.0, t, a] for a, t, _ in rows])
    plain = np.linalg.lstsq(design, np.array([y for _, _, y in rows]), rcond=None)[0]
    assert plain == pytest.approx([5.649, -0.1196, 0.0010858], rel=1e-3)
    fit = usable_fit(rows, 4)
    assert fit.slopes[1] == 0.0
    assert fit.slopes[0] == pytest.approx(0.00099194, rel=1e-5)
    assert fit.intercept_ms == pytest.approx(5.4403, rel=1e-5)
    assert residual_ms2(fit, rows) == pytest.approx(0.156, abs=5e-4)
    assert fit.raw_ms((80000, 64)) == pytest.approx(84.80, abs=5e-3)


def test_superlinear_prefill_has_a_negative_intercept_and_a_floor() -> None:
    rows: list[Observation] = [(2048, 0, 40), (4096, 0, 95), (8192, 0, 260)]
    model = LinearModel(3)
    model.update(rows)
    # In units of 2048 tokens the slope is (1270 - 7*395/3) / (21 - 49/3) = 74.643 ms, so the line is at
    # 395/3 - 7/3*74.643 = -42.5 at nothing and at -42.5 + 16*74.643/2048 = -41.917 at 16 tokens, as reported.
    assert model.fit is not None
    assert model.fit.intercept_ms == pytest.approx(-42.5, rel=1e-12)
    assert model.fit.raw_ms((16, 0)) == pytest.approx(-41.917, abs=1e-3)
    assert model.predict_ms((16, 0)) == 1e-6


def test_extrapolation_goes_on_along_the_line() -> None:
    forecaster = Forecaster("prefill")
    for tokens in range(512, 4097, 512):
        forecaster.observe([prefill(1, tokens, 0, (5 + 0.02 * tokens) / 1000)])
    # 5 + 0.02*32768 = 660.36, where a flat continuation would give 86.92. The rounding of the eight durations
    # leaves the attention slope at noise, which counts as none.
    assert forecaster.forecast([prefill(1, 32768)]).value_ms == pytest.approx(660.36, rel=1e-9)


@pytest.mark.parametrize("unit", [1.0, 1e-21, 1e9])
def test_the_minimiser_is_found_in_any_unit(unit: float) -> None:
    # Least squares without intercept of [[1,1],[3,2]] to [2,3] under nonnegativity: [0, 1.6], residual sqrt(0.2).
    # The mirrored rows make every mean zero, so the free intercept is zero and the residual doubles to 0.4.
    rows: list[Observation] = [(1, 1, 2), (3, 2, 3), (-1, -1, -2), (-3, -2, -3)]
    scaled = [(unit * a, unit * t, y) for a, t, y in rows]
    choice = choose_face(moments_of(scaled))
    assert float(choice.face.slopes[0]) == 0.0
    assert float(choice.face.slopes[1]) * unit == pytest.approx(1.6, rel=1e-14)
    assert float(choice.face.residual) == pytest.approx(0.4, rel=1e-14)


def test_constant_tiny_and_large_features() -> None:
    # A batch of 8 in every row gets no slope; 1e-12 to 4e-12 and 1e9 + {0,1,2} are genuine loads.
    batch_of_eight = usable_fit((x, 8, 3 + 2 * x) for x in range(1, 6))
    assert batch_of_eight.slopes == (2.0, 0.0)
    tiny = usable_fit(((x * 1e-12, 8, 3 + 2 * x) for x in range(1, 5)), 4)
    assert tiny.raw_ms((5e-12, 8)) == pytest.approx(13.0, rel=1e-12)
    large = usable_fit(((1e9 + x, 8, 3 + 2 * x) for x in range(3)), 3)
    assert large.raw_ms((1e9 + 3, 8)) == 9.0
    # A spread of 1e-7 about 1e6 is below 1e-12 of the mean, hence constant; a decimal that repeats is exactly so.
    assert failure((1e6 + (x % 2) * 1e-7, 0, x) for x in range(6)) == CONSTANT_LOAD
    assert failure((14.62, 14.62, x) for x in range(1000)) == CONSTANT_LOAD


def test_an_axis_is_judged_against_its_own_mean() -> None:
    # Spread 1e-12 is far below one, but the same share of its mean in every unit.
    for unit in (1e-12, 1.0, 1e13):
        assert usable_fit((x * unit, 0, x) for x in range(1, 7)).slopes[0] * unit == pytest.approx(1.0, rel=1e-12)


def test_constant_target_is_no_signal() -> None:
    assert failure((100 * x, 8, 12.0) for x in range(1, 11)) == NO_LOAD_SIGNAL
    assert failure((100 * x, x % 3, 12.1) for x in range(1, 11)) == NO_LOAD_SIGNAL


# --- against SciPy ----------------------------------------------------------------------------------------------


def scipy_prediction(rows: list[Observation], query: Features) -> float:
    """The same constrained fit in double precision: standardised, centred columns and SciPy's solver, in ms."""
    table = np.array(rows)
    features, target = table[:, :2], table[:, 2]
    mean, spread = features.mean(axis=0), features.std(axis=0)
    solution, _ = nnls((features - mean) / spread, target - target.mean())
    return float(target.mean() + ((np.array(query) - mean) / spread) @ solution)


@pytest.mark.parametrize("seed", range(200))
def test_scipy_agrees_on_random_rows(seed: int) -> None:
    random = np.random.default_rng(seed)
    features = random.uniform(0, 1, (int(random.integers(6, 65)), 2)) * [10.0 ** random.integers(-6, 9), 64.0]
    slopes = random.normal(size=2) / features.max(axis=0) * 20
    target = 30 + features @ slopes + random.normal(size=len(features))
    rows = [(float(a), float(t), float(y)) for (a, t), y in zip(features, target, strict=True)]
    outcome = fit_rows(rows)
    query = (float(features[:, 0].max()), float(features[:, 1].min()))
    if outcome.fit is None:
        assert outcome.reason == NO_LOAD_SIGNAL
        assert scipy_prediction(rows, query) == pytest.approx(float(target.mean()), rel=1e-12)
    else:
        assert outcome.fit.raw_ms(query) == pytest.approx(scipy_prediction(rows, query), rel=1e-9)


# --- recordings -------------------------------------------------------------------------------------------------

FOLDER = recordings_folder(Path(__file__))
needs_recordings = pytest.mark.skipif(FOLDER is None, reason="the folder with the recordings is not here")


def test_lines_are_read_in_seconds_and_predicted_before_they_are_learned(tmp_path: Path) -> None:
    path = tmp_path / "line.jsonl.gz"
    with gzip.open(path, "wt") as lines:
        for context in range(8):
            scheduled = {"num_decode_requests": 1 if context else 0, "sum_decode_kv_tokens": context}
            metrics = {"worker_id": "w", "wall_time": context / 1000, "scheduled_requests": scheduled}
            lines.write(json.dumps({"received_at_ns": 0, "metrics": metrics}) + "\n")
    rows = list(replay(read_recording(path)))
    # Row 0 is idle and counts as a row, but is not scored; five rows are learned before the first answer.
    assert [row.row for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert [row.reason for row in rows] == ["cold"] * 5 + [None] * 2
    assert [row.retained for row in rows] == [0, 1, 2, 3, 4, 5, 6]
    assert rows[5].predicted_ms == pytest.approx(6.0, rel=1e-12)  # One ms a token of context.
    assert rows[5].one_minus_rho2 is None  # One axis varies.


@needs_recordings
@pytest.mark.parametrize(
    ("name", "iterations", "first_work_ms"),
    [
        # Line counts and first durations as they stand in the files.
        ("b300/dsv4-flash_tp1.csv.gz", 497, 165.025),
        ("b300/b200_trtllm_gpt-oss-120b_prefill.csv.gz", 2000, 54.734),
        ("cpu/prefill-only.jsonl.gz", 1796, 35.8011530006479),
    ],
)
def test_layouts(name: str, iterations: int, first_work_ms: float) -> None:
    assert FOLDER is not None
    records = list(read_recording(FOLDER / name))
    assert len(records) == iterations
    assert next(replay(records)).observed_ms == pytest.approx(first_work_ms, rel=1e-12)


@needs_recordings
def test_scipy_agrees_where_a_recording_is_well_conditioned() -> None:
    assert FOLDER is not None
    forecaster = Forecaster()
    compared = 0
    for record in read_recording(FOLDER / "b300" / "dsv4-flash_tp1.csv.gz"):
        store = forecaster.stores.get(kind_of([record]))
        if store and store.model.fit and store.model.fit.choice.face.axes:
            choice = store.model.fit.choice
            rows = [(row.features[0], row.features[1], row.target_ms) for row in store.retention.rows]
            kept = fit_rows(rows).fit is None
            if not kept and choice.one_minus_rho2 is not None and choice.one_minus_rho2 > Fraction(1, 10**4):
                query = features_of([record], "aggregated")
                raw = store.model.fit.raw_ms(query)
                scale = max(abs(raw), float(store.model.fit.mean_ms))
                assert raw == pytest.approx(scipy_prediction(rows, query), abs=1e-9 * scale)
                compared += 1
        forecaster.observe([record])
    assert compared > 100
