"""One worker's forecaster: a store of rows and a linear model for each kind of iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .linear import COLD, LinearModel
from .record import RankRecord
from .retention import Retention
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

LINEAR = "linear"


@dataclass
class Store:
    """Rows of one kind and the model that is fitted to them."""

    retention: Retention
    model: LinearModel

    def learn(self, features: Sequence[float], target_ms: float) -> None:
        """Admit one row, in the features' units and ms, and refit."""
        self.retention.insert(features, target_ms)
        self.model.update([(row.features[0], row.features[1], row.target_ms) for row in self.retention.rows])


@dataclass(frozen=True)
class Forecast:
    """An answer in ms with its source, or None with the reason."""

    value_ms: float | None
    source: str | None
    reason: str | None


@dataclass
class Forecaster:
    """Predicts and learns the iterations of one worker of a given role."""

    role: str = "aggregated"
    weights: Weights = UNIT_WEIGHTS
    bins: tuple[int, int] = (4, 4)
    max_observations: int = 64
    min_observations: int = 5
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
        value = store.model.predict_ms(features)
        if value is None:
            return Forecast(None, None, store.model.reason)
        return Forecast(value, LINEAR, None)

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
            self.stores[kind] = Store(Retention(self.bins, self.max_observations), LinearModel(self.min_observations))
        self.stores[kind].learn(features, target_ms)

    @property
    def retained(self) -> int:
        """Rows kept over all stores."""
        return sum(len(store.retention.rows) for store in self.stores.values())
