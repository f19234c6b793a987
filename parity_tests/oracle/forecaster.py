"""One worker's forecaster: a store of rows and a model for each kind of iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .linear import COLD, LinearModel
from .record import RankRecord
from .retention import Retention
from .schedule import Adaptive, Periodic
from .spline_store import SPLINE, SplineStore
from .store import LINEAR, Forecast, Store
from .workload import (
    IDLE,
    UNIT_WEIGHTS,
    RejectedObservation,
    Weights,
    check_iteration,
    duration_ms,
    features_of,
    kind_of,
)

SPLINE_PERIODIC = "spline-periodic"
FITS = (LINEAR, SPLINE, SPLINE_PERIODIC)


@dataclass
class Forecaster:
    """Predicts and learns the iterations of one worker of a given role."""

    role: str = "aggregated"
    weights: Weights = UNIT_WEIGHTS
    bins: tuple[int, int] = (4, 4)
    max_observations: int = 64
    min_observations: int = 5
    fit: str = LINEAR
    stores: dict[str, Store] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)

    def forecast(self, ranks: Sequence[RankRecord]) -> Forecast:
        """Forecast one iteration from its rank records; durations in them are not looked at."""
        check_iteration(ranks, self.role)
        kind = kind_of(ranks)
        if kind == IDLE:
            return Forecast(0.0, IDLE, None)
        features = features_of(ranks, self.role, self.weights)
        store = self.stores.get(kind)
        if store is None:
            return Forecast(None, None, COLD)
        return store.forecast(features)

    def observe(self, ranks: Sequence[RankRecord]) -> None:
        """Learn one iteration; idle ones are ignored and rejected ones only counted."""
        check_iteration(ranks, self.role)
        kind = kind_of(ranks)
        if kind == IDLE:
            return
        features = features_of(ranks, self.role, self.weights)
        try:
            target_ms = duration_ms(ranks)
        except RejectedObservation as rejection:
            self.rejected[rejection.reason] += 1
            return
        if kind not in self.stores:
            self.stores[kind] = self._new_store()
        self.stores[kind].learn(features, target_ms)

    def _new_store(self) -> Store:
        retention = Retention(self.bins, self.max_observations)
        if self.fit == LINEAR:
            return Store(retention, LinearModel(self.min_observations))
        if self.fit not in FITS:
            raise ValueError(f"fit is {self.fit!r}, expected one of {FITS}")
        schedule = Adaptive() if self.fit == SPLINE else Periodic()
        return SplineStore(retention, schedule, min_observations=self.min_observations)

    @property
    def retained(self) -> int:
        """Rows kept over all stores."""
        return sum(len(store.retention.rows) for store in self.stores.values())
