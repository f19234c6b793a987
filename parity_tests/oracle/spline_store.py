"""Rows of one kind of iteration with a spline that answers inside their box and a linear model that answers outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .knots import search_knots
from .linear import FLOOR_MS, LinearModel
from .retention import Retention
from .schedule import Schedule, due
from .spline import AXES, REAL, Condition, Epoch, SplineFit, condition, fit_spline
from .store import LINEAR, Forecast, Store

SPLINE = "spline"


class SplineStore(Store):
    """A store whose spline is, after every observation, the batch fit of its rows at the knots of the last search."""

    def __init__(
        self, retention: Retention, schedule: Schedule, knots_per_axis: int = 2, min_observations: int = 5
    ) -> None:
        super().__init__(retention, LinearModel(min_observations, keeps_earlier=False))
        self.schedule = schedule
        self.knots_per_axis = knots_per_axis
        self.epoch: Epoch | None = None
        self.fit: SplineFit | None = None
        self.knot_searches = 0
        self.last_search: int | None = None
        self.closest_choices: list[float] = []

    @property
    def ready(self) -> bool:
        """Whether there is a spline and load explains something in it."""
        return self.fit is not None and self.fit.ready

    def box_holds(self, features: Sequence[float]) -> bool:
        """Whether a load lies within the range of the retained rows on each axis, the ends included."""
        rows = self.retention.rows
        return all(
            min(row.features[axis] for row in rows) <= features[axis] <= max(row.features[axis] for row in rows)
            for axis in AXES
        )

    def forecast(self, features: Sequence[float]) -> Forecast:
        """Answer for a load in the features' units; without the linear model nothing answers."""
        forecast = super().forecast(features)
        if forecast.source == LINEAR and self.fit is not None and self.fit.ready and self.box_holds(features):
            return Forecast(max(self.fit.raw_ms(features), FLOOR_MS), SPLINE, None)
        return forecast

    def learn(self, features: Sequence[float], target_ms: float) -> None:
        """Admit one row, in the features' units and ms, judge the spline that was, and search the knots or refit."""
        if self.fit is not None:
            prior_ms = self.fit.raw_ms(features)
            if math.isfinite(prior_ms):
                self.schedule.note(prior_ms, target_ms)
        super().learn(features, target_ms)
        rows = self.retention.rows
        table = np.array([row.features for row in rows], REAL)
        targets_ms = np.array([row.target_ms for row in rows], REAL)
        accepted = self.retention.accepted
        if due(self.schedule, accepted, len(rows), self.last_search, self.model.min_observations):
            search = search_knots(table, targets_ms, self.knots_per_axis, self.epoch)
            self.epoch, self.fit = search.epoch, search.fit
            self.knot_searches += 1
            self.last_search = accepted
            self.schedule.searched()
            if search.closest is not None:
                self.closest_choices.append(search.closest)
        elif self.epoch is not None:
            self.fit = fit_spline(table, targets_ms, self.epoch)

    def condition(self) -> Condition | None:
        """The rank of the retained rows at the knots in use, or None before the first search."""
        if self.epoch is None:
            return None
        return condition(np.array([row.features for row in self.retention.rows], REAL), self.epoch)

    def diagnostics(self) -> dict[str, Any]:
        """The state that the product reports too."""
        return {
            "initialized": self.epoch is not None,
            "ready": self.ready,
            "accepted_observations": self.retention.accepted,
            "knot_searches": self.knot_searches,
            "last_search_observation": self.last_search,
            "knots": None if self.epoch is None else self.epoch.raw_knots(),
        }
