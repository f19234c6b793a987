"""Replay of a recording with the adaptive fit: a store for each kind, and the parts of mixed steps as their floor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, product

from .adaptive import METHOD, AdaptiveStore, Constants, State
from .intervals import Intervals
from .linear import COLD
from .record import RankRecord
from .replay import ReplayedRow
from .store import Forecast
from .workload import (
    CROSS_RANK,
    IDLE,
    LOCALLY_MIXED,
    PURE_DECODE,
    PURE_PREFILL,
    RejectedObservation,
    check_iteration,
    duration_ms,
    features_of,
    kind_of,
)

PART_FLOOR = "part_floor"
ROLE = "aggregated"
INTERVAL_LEVEL = Fraction(9, 10)


def decode_part(record: RankRecord) -> RankRecord:
    """The record without its prefill work."""
    return replace(record, num_prefill_requests=0, sum_prefill_tokens=0, sum_prefill_kv_tokens=0)


def prefill_part(record: RankRecord) -> RankRecord:
    """The record without its decode work."""
    return replace(record, num_decode_requests=0, sum_decode_kv_tokens=0)


@dataclass(frozen=True)
class AdaptiveRow:
    """A replayed row, what rounding could have answered instead, its interval in ms and its store before it."""

    replayed: ReplayedRow
    others: list[Forecast]
    interval_ms: tuple[float, float] | None
    state: State


def with_floor(own: Forecast, floor: Forecast) -> Forecast:
    """The forecast of a mixed step, or that of one of its parts where it is higher."""
    if own.value_ms is None or floor.value_ms is None or floor.value_ms <= own.value_ms:
        return own
    return Forecast(floor.value_ms, PART_FLOOR, own.reason)


def error(forecast_ms: float, latency_ms: float) -> float:
    """How far off a forecast was, relative to the latency and 1 at most."""
    return min(1.0, abs(forecast_ms - latency_ms) / latency_ms)


class AdaptiveForecaster:
    """Predicts and learns the single-rank iterations of one worker."""

    def __init__(self, constants: Constants = METHOD) -> None:
        self.constants = constants
        self.stores: dict[str, AdaptiveStore] = {}
        self.floor_harm: dict[str, float] = {}
        self.intervals: dict[str, Intervals] = {}

    def store(self, kind: str) -> AdaptiveStore:
        """The store of a kind, opened where there is none."""
        if kind not in self.stores:
            self.stores[kind] = AdaptiveStore(self.constants)
            self.intervals[kind] = Intervals()
            self.floor_harm[kind] = 0.0
        return self.stores[kind]

    def floors(self, record: RankRecord, kind: str) -> list[Forecast]:
        """What the dearer part of a mixed step costs alone, as `AdaptiveStore.forecasts`; none if unknown."""
        if kind not in (LOCALLY_MIXED, CROSS_RANK):
            return []
        parts = ((PURE_DECODE, decode_part(record)), (PURE_PREFILL, prefill_part(record)))
        known = []
        for part_kind, part in parts:
            if part_kind in self.stores:
                answers = self.stores[part_kind].forecasts(features_of([part], ROLE))
                known.append([answer for answer in answers if answer.value_ms is not None])
        return [max(chosen, key=lambda answer: answer.value_ms) for chosen in product(*filter(None, known)) if chosen]

    def forecasts(self, record: RankRecord) -> list[Forecast]:
        """The answer for one iteration that is not idle and, after it, the others that rounding could lead to."""
        kind = kind_of([record])
        if kind not in self.stores:
            return [Forecast(None, None, COLD)]
        answers = self.stores[kind].forecasts(features_of([record], ROLE))
        floors = self.floors(record, kind)
        if not floors or self.floor_harm[kind] > 0.0:
            return answers
        return list(dict.fromkeys(with_floor(answer, floor) for answer in answers for floor in floors))

    def learn(self, record: RankRecord, latency_ms: float) -> None:
        """Judge the floor and the interval, and learn the row."""
        kind = kind_of([record])
        store = self.store(kind)
        features = features_of([record], ROLE)
        served, own = self.forecasts(record)[0], store.forecast(features)
        if served.value_ms is not None:
            self.intervals[kind].learn(latency_ms / served.value_ms)
        self.floor_harm[kind] *= self.constants.floor_discount
        for floor in self.floors(record, kind)[:1]:
            if own.value_ms is not None and floor.value_ms is not None and floor.value_ms > own.value_ms:
                self.floor_harm[kind] += error(floor.value_ms, latency_ms) - error(own.value_ms, latency_ms)
        store.learn(features, latency_ms)


def replay_adaptive(
    records: Iterable[RankRecord],
    limit: int | None = None,
    constants: Constants = METHOD,
    forecasters: dict[str, AdaptiveForecaster] | None = None,
) -> Iterator[AdaptiveRow]:
    """Replay single-rank iterations, the first `limit` of them if given, with one forecaster per worker."""
    if forecasters is None:
        forecasters = {}
    for number, record in enumerate(islice(records, limit)):
        check_iteration([record], ROLE)
        kind = kind_of([record])
        if kind == IDLE:
            continue
        try:
            observed_ms = duration_ms([record])
        except RejectedObservation:
            continue
        forecaster = forecasters.setdefault(record.worker_id, AdaptiveForecaster(constants))
        store = forecaster.store(kind)
        forecast, *others = forecaster.forecasts(record)
        interval_ms = None
        if forecast.value_ms is not None and forecaster.intervals[kind].calibrated(INTERVAL_LEVEL):
            low, high = forecaster.intervals[kind].ends(INTERVAL_LEVEL)
            interval_ms = (forecast.value_ms * low, forecast.value_ms * high)
        replayed = ReplayedRow(
            row=number,
            worker_id=record.worker_id,
            kind=kind,
            observed_ms=observed_ms,
            predicted_ms=forecast.value_ms,
            reason=forecast.reason,
            one_minus_rho2=None,
            single_axis_tie=False,
            retained=len(store.retention.rows),
            source=forecast.source,
            knot_searches=store.knot_searches,
        )
        yield AdaptiveRow(replayed, others, interval_ms, store.state())
        forecaster.learn(record, observed_ms)
