"""The adaptive fit of one kind of iteration: two robust models, each at four levels, and the choice among the eight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .knots import search_knots
from .linear import COLD, FLOOR_MS, NO_LOAD_SIGNAL
from .nonnegative import Array
from .robust import Line, robust_line, robust_spline, spline_heights_ms, weights_after
from .spline import REAL, Epoch, SplineFit
from .spread import SpreadRetention
from .store import Forecast

SOURCES = (("robust_linear", "tracked_linear"), ("robust_spline", "tracked_spline"))
"""Of the line and the spline, each as it is and at a level."""
STALE = "stale"
EXTRAPOLATING = "extrapolating"
KNOTS_PER_AXIS = 3
ROWS_FOR_SPLINE = 32

HALF_TOLERANCE = 1e-12
"""A share of the weight this close to one half may come out on either side of it in double precision."""
TIE_TOLERANCE = 1e-9
"""Forecasts this close, relative to each other, may come out in either order in double precision."""


@dataclass(frozen=True)
class Constants:
    """Everything that the method fixes and a test may want to perturb."""

    huber: float = 0.7
    windows: tuple[int, ...] = (2, 8, 32)
    discount: float = 0.96
    rate: float = 2.0
    floor_discount: float = 0.97
    refit_divisor: int = 8
    search_divisor: int = 4
    recent: int = 32


METHOD = Constants()


def in_order(values: Sequence[float]) -> list[int]:
    """Places of the values in ascending order; of equal values, the first comes first."""
    return sorted(range(len(values)), key=lambda place: (values[place], place))


def excess_below(weights: Sequence[float], order: Sequence[int], count: int) -> float:
    """The weight of the first `count` places in order less that of the others, summed without an error of sign."""
    return math.fsum([*(weights[place] for place in order[:count]), *(-weights[place] for place in order[count:])])


def first_to_reach_half(values: Sequence[float], weights: Sequence[float]) -> int:
    """Place of the least value at or below which half of the weight lies; of equal values, the first counts.

    The sums are exact: with the line's forecasts and the spline's weighing alike, half is often reached exactly.
    """
    order = in_order(values)
    return next(place for count, place in enumerate(order, 1) if excess_below(weights, order, count) >= 0.0)


def level_of(pairs: Sequence[tuple[float, float]]) -> float:
    """The level of latencies over what a model gives for them, both in ms; 1 without any."""
    if not pairs:
        return 1.0
    ratios = [latency / model for latency, model in pairs]
    return ratios[first_to_reach_half(ratios, [model / latency for latency, model in pairs])]


def clamp(value: int, least: int, greatest: int) -> int:
    """The value, or the bound that it lies beyond."""
    return min(max(value, least), greatest)


@dataclass(frozen=True)
class Offers:
    """The eight forecasts in ms, their weights, and the place of the one that is served."""

    values_ms: tuple[float, ...]
    weights: tuple[float, ...]
    served: int

    def near_served(self, half_tolerance: float, tie_tolerance: float) -> list[int]:
        """Places that rounding could serve, the served one first.

        Those are the forecasts up to which half of the weight lies or begins, to within a share of the weight, and
        those that differ from one of them by no more than a share of it.
        """
        order = in_order(self.values_ms)
        slack = 2.0 * half_tolerance * sum(self.weights)
        near = [self.served]
        near += [
            place
            for count, place in enumerate(order)
            if place != self.served
            and excess_below(self.weights, order, count) <= slack
            and excess_below(self.weights, order, count + 1) >= -slack
        ]
        near += [
            place
            for place, value_ms in enumerate(self.values_ms)
            if place not in near
            and any(abs(value_ms - self.values_ms[other]) <= tie_tolerance * value_ms for other in near)
        ]
        return near


@dataclass(frozen=True)
class State:
    """What a store knows between two rows, as far as the product shows it."""

    accepted: int
    kept: int
    levels: tuple[float, ...]
    shares: tuple[float, ...]
    knot_searches: int
    knots: list[list[float]] | None


@dataclass(frozen=True)
class Newest:
    """One of the newest rows, and what both models give for it, in ms."""

    features: tuple[float, ...]
    latency_ms: float
    modelled_ms: tuple[float, float]


class AdaptiveStore:
    """Rows of one kind with all that the adaptive fit makes of them."""

    def __init__(self, constants: Constants = METHOD, min_observations: int = 5) -> None:
        self.constants = constants
        self.min_observations = min_observations
        self.retention = SpreadRetention(recent=constants.recent)
        self.line: Line | None = None
        self.reason: str | None = COLD
        self.stale = False
        self.spline: SplineFit | None = None
        self.epoch: Epoch | None = None
        self.knot_searches = 0
        self.closest_choices: list[float] = []
        self.last_search = 0
        self.next_refit = 1
        self.newest: list[Newest] = []
        self.losses = [0.0] * (2 * (1 + len(constants.windows)))
        # What follows from the state above is worked out once between two rows.
        self._levels: list[float] | None = None
        self._offers: dict[tuple[float, ...], Offers] = {}

    # --- the models ---------------------------------------------------------------------------------------------

    def line_ms(self, features: Array) -> Array:
        """Values of the line in ms at rows of features."""
        assert self.line is not None
        return np.maximum(self.line.heights_ms(features), REAL(FLOOR_MS))

    def spline_ms(self, features: Array) -> Array:
        """Values of the spline in ms at rows of features, followed outside of the box as the line goes."""
        if self.spline is None:
            return self.line_ms(features)
        kept = np.array([row.features for row in self.retention.rows], REAL)
        capped = np.minimum(features, kept.max(axis=0))
        inside = np.maximum(capped, kept.min(axis=0))
        values = np.maximum(spline_heights_ms(self.spline, inside), REAL(FLOOR_MS))
        below = np.any(inside != capped, axis=1)
        values[below] *= self.line_ms(capped[below]) / self.line_ms(inside[below])
        far = np.any(capped != features, axis=1)
        values[far] += self.line_ms(features[far]) - self.line_ms(capped[far])
        return np.maximum(values, REAL(FLOOR_MS))

    # --- forecasts ----------------------------------------------------------------------------------------------

    def offers(self, features: Sequence[float]) -> Offers | None:
        """The forecasts for a load in the features' units, or None without a line."""
        if self.line is None:
            return None
        key = tuple(features)
        if key not in self._offers:
            levels = self.levels()
            each = len(levels) // 2
            by_line, by_spline = self.modelled_ms(features)
            values = [by_line * level for level in levels[:each]] + [by_spline * level for level in levels[each:]]
            least = min(self.losses)
            weights = [self._weight(loss - least) for loss in self.losses]
            self._offers[key] = Offers(tuple(values), tuple(weights), first_to_reach_half(values, weights))
        return self._offers[key]

    def levels(self) -> list[float]:
        """By how much each forecast scales its model: 1, then the level of each window, line before spline."""
        if self._levels is None:
            self._levels = []
            for model in (0, 1):
                pairs = [(row.latency_ms, row.modelled_ms[model]) for row in self.newest]
                self._levels += [1.0, *(level_of(pairs[-window:]) for window in self.constants.windows)]
        return self._levels

    def modelled_ms(self, features: Sequence[float]) -> tuple[float, float]:
        """What the line and the spline give for a load, as they are."""
        load = np.array([features], REAL)
        return float(self.line_ms(load)[0]), float(self.spline_ms(load)[0])

    def forecast(self, features: Sequence[float]) -> Forecast:
        """Answer for a load in the features' units."""
        return self.forecasts(features)[0]

    def forecasts(self, features: Sequence[float]) -> list[Forecast]:
        """The answer for a load and, after it, the others that rounding could lead to."""
        offers = self.offers(features)
        if offers is None:
            return [Forecast(None, None, self.reason)]
        caveat = STALE if self.stale else None if self.box_holds(features) else EXTRAPOLATING
        answers = []
        for place in offers.near_served(HALF_TOLERANCE, TIE_TOLERANCE):
            model, level = divmod(place, len(offers.values_ms) // 2)
            by_spline = model == 1 and self.spline is not None
            value_ms = max(offers.values_ms[place], FLOOR_MS)
            answers.append(Forecast(value_ms, SOURCES[by_spline][level > 0], caveat))
        return answers

    def box_holds(self, features: Sequence[float]) -> bool:
        """Whether a load lies within the range of the rows kept on each axis, the ends included."""
        columns = zip(*(row.features for row in self.retention.rows), strict=True)
        return all(min(column) <= value <= max(column) for column, value in zip(columns, features, strict=True))

    def state(self) -> State:
        """What is known now."""
        least = min(self.losses)
        weights = [self._weight(loss - least) for loss in self.losses]
        return State(
            accepted=self.retention.accepted,
            kept=len(self.retention.rows),
            levels=tuple(self.levels()),
            shares=tuple(weight / sum(weights) for weight in weights),
            knot_searches=self.knot_searches,
            knots=None if self.epoch is None else self.epoch.raw_knots(),
        )

    def _weight(self, excess: float) -> float:
        return math.exp(-self.constants.rate * self.constants.discount * excess)

    # --- learning -----------------------------------------------------------------------------------------------

    def learn(self, features: Sequence[float], target_ms: float) -> None:
        """Judge what was offered, keep the row, and refit where it is time."""
        offers = self.offers(features)
        if offers is not None:
            for i, value_ms in enumerate(offers.values_ms):
                error = min(1.0, abs(value_ms - target_ms) / target_ms)
                self.losses[i] = self.constants.discount * self.losses[i] + error
            row = Newest(tuple(features), target_ms, self.modelled_ms(features))
            self.newest = [*self.newest, row][-max(self.constants.windows) :]
        self.retention.insert(features, target_ms)
        self._levels = None
        self._offers.clear()
        accepted = self.retention.accepted
        if accepted >= self.next_refit and len(self.retention.rows) >= self.min_observations:
            self.next_refit = accepted + clamp(accepted // self.constants.refit_divisor, 1, 64)
            self._refit()

    def _refit(self) -> None:
        rows = self.retention.rows
        table = np.array([row.features for row in rows], REAL)
        targets_ms = np.array([row.target_ms for row in rows], REAL)
        line = robust_line(table, targets_ms, self.constants.huber)
        if isinstance(line, Line):
            self.line, self.reason, self.stale = line, None, False
        elif line == NO_LOAD_SIGNAL and self.line is not None:
            self.stale = True
        else:
            self.line, self.reason = None, line
        if len(rows) >= ROWS_FOR_SPLINE:
            self._refit_spline(table, targets_ms)
        if self.line is not None:
            self.newest = [replace(row, modelled_ms=self.modelled_ms(row.features)) for row in self.newest]

    def _refit_spline(self, table: Array, targets_ms: Array) -> None:
        accepted = self.retention.accepted
        wait = clamp(self.last_search // self.constants.search_divisor, 1, 1024)
        if self.last_search == 0 or accepted - self.last_search >= wait:
            start = None if self.epoch is None else robust_spline(table, targets_ms, self.epoch, self.constants.huber)
            if start is not None:
                heights = spline_heights_ms(start, table)
            elif self.line is not None:
                heights = self.line.heights_ms(table)
            else:
                self.spline = None
                return
            weights = weights_after(heights, targets_ms, self.constants.huber)
            search = search_knots(table, targets_ms, KNOTS_PER_AXIS, self.epoch, weights)
            self.last_search = accepted
            self.knot_searches += 1
            self.epoch = None if search.fit is None else search.epoch
            if search.closest is not None:
                self.closest_choices.append(search.closest)
        self.spline = None if self.epoch is None else robust_spline(table, targets_ms, self.epoch, self.constants.huber)
        if self.spline is None:
            self.epoch = None
