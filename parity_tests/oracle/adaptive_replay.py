"""Replay of a recording with the adaptive fit: a store for each kind, and decode work as the floor of mixed steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice

from .adaptive import METHOD, AdaptiveStore, Constants, Offers
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
    RejectedObservation,
    check_iteration,
    duration_ms,
    features_of,
    kind_of,
)

DECODE_FLOOR = "decode_floor"
ROLE = "aggregated"
INTERVAL_LEVEL = Fraction(9, 10)


def decode_part(record: RankRecord) -> RankRecord:
    """The record without its prefill work."""
    return replace(record, num_prefill_requests=0, sum_prefill_tokens=0, sum_prefill_kv_tokens=0)


@dataclass(frozen=True)
class AdaptiveRow:
    """A replayed row with the eight forecasts behind it, its interval in ms and the state of its store."""

    replayed: ReplayedRow
    offers: Offers | None
    interval_ms: tuple[float, float] | None
    accepted: int


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

    def floor_ms(self, record: RankRecord, kind: str) -> float | None:
        """What the decode work of a mixed step costs alone, or None where nothing is known of that."""
        if kind not in (LOCALLY_MIXED, CROSS_RANK) or PURE_DECODE not in self.stores:
            return None
        features = features_of([decode_part(record)], ROLE)
        return self.stores[PURE_DECODE].forecast(features).value_ms

    def forecast(self, record: RankRecord) -> Forecast:
        """Forecast one iteration that is not idle."""
        kind = kind_of([record])
        if kind not in self.stores:
            return Forecast(None, None, COLD)
        own = self.stores[kind].forecast(features_of([record], ROLE))
        floor_ms = self.floor_ms(record, kind)
        if own.value_ms is None or floor_ms is None or floor_ms <= own.value_ms or self.floor_harm[kind] > 0.0:
            return own
        return Forecast(floor_ms, DECODE_FLOOR, None)

    def learn(self, record: RankRecord, latency_ms: float) -> None:
        """Judge the floor and the interval, and learn the row."""
        kind = kind_of([record])
        store = self.store(kind)
        features = features_of([record], ROLE)
        served, own = self.forecast(record), store.forecast(features)
        if served.value_ms is not None:
            self.intervals[kind].learn(latency_ms / served.value_ms)
        self.floor_harm[kind] *= self.constants.floor_discount
        floor_ms = self.floor_ms(record, kind)
        if own.value_ms is not None and floor_ms is not None and floor_ms > own.value_ms:
            with_floor, without = (
                min(1.0, abs(value - latency_ms) / latency_ms) for value in (floor_ms, own.value_ms)
            )
            self.floor_harm[kind] += with_floor - without
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
        forecast = forecaster.forecast(record)
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
        offers = store.offers(features_of([record], ROLE))
        yield AdaptiveRow(replayed, offers, interval_ms, store.retention.accepted)
        forecaster.learn(record, observed_ms)
