"""Rows of one kind of iteration with the linear model that is fitted to them, and what a store answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .linear import LinearModel
from .retention import Retention

LINEAR = "linear"


@dataclass(frozen=True)
class Forecast:
    """An answer in ms with its source, or None with the reason."""

    value_ms: float | None
    source: str | None
    reason: str | None


class Store:
    """Rows of one kind and the linear model that is fitted to them."""

    def __init__(self, retention: Retention, model: LinearModel) -> None:
        self.retention = retention
        self.model = model

    def forecast(self, features: Sequence[float]) -> Forecast:
        """Answer for a load in the features' units."""
        value_ms = self.model.predict_ms(features)
        if value_ms is None:
            return Forecast(None, None, self.model.reason)
        return Forecast(value_ms, LINEAR, None)

    def learn(self, features: Sequence[float], target_ms: float) -> None:
        """Admit one row, in the features' units and ms, and refit."""
        self.retention.insert(features, target_ms)
        self.model.update([(row.features[0], row.features[1], row.target_ms) for row in self.retention.rows])
