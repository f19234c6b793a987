"""The linear fit that a store serves: a batch fit of its rows at every update, and when an earlier fit stays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .faces import ATTENTION, FFN, TARGET, Choice, choose_face, varying_axes
from .moments import moments_of

FLOOR_MS = 1e-6

COLD = "cold"
CONSTANT_LOAD = "constant_load"
NO_LOAD_SIGNAL = "no_load_signal"
UNSOLVABLE = "unsolvable"


@dataclass(frozen=True)
class LinearFit:
    """A plane through the mean of its rows: means in the features' units and ms, slopes in ms per unit."""

    mean_features: tuple[Fraction, Fraction]
    mean_ms: Fraction
    choice: Choice

    @property
    def slopes(self) -> tuple[float, float]:
        """Slopes of attention and FFN, in ms per unit, rounded once."""
        attention, ffn = self.choice.face.slopes
        return float(attention), float(ffn)

    @property
    def intercept_ms(self) -> float:
        """Height of the plane at no load, in ms, rounded once; it may be negative."""
        return float(self._height((0.0, 0.0)))

    def raw_ms(self, features: Sequence[float]) -> float:
        """Height of the plane in ms, rounded once, without the floor of served answers."""
        return float(self._height(features))

    def _height(self, features: Sequence[float]) -> Fraction:
        height = self.mean_ms
        for axis in self.choice.face.axes:
            height += self.choice.face.slopes[axis] * (Fraction(features[axis]) - self.mean_features[axis])
        return height


@dataclass(frozen=True)
class FitOutcome:
    """What a batch fit came to: a usable fit, or a reason against one."""

    fit: LinearFit | None
    reason: str | None


def fit_rows(rows: Sequence[tuple[float, float, float]], min_observations: int = 5) -> FitOutcome:
    """Fit rows of attention, FFN and ms."""
    if len(rows) < max(min_observations, 1):
        return FitOutcome(None, COLD)
    moments = moments_of(rows)
    if not moments.fits_in_double():
        return FitOutcome(None, UNSOLVABLE)
    axes = varying_axes(moments)
    if not axes:
        return FitOutcome(None, CONSTANT_LOAD)
    means = moments.means
    fit = LinearFit((means[ATTENTION], means[FFN]), means[TARGET], choose_face(moments))
    try:
        finite = all(math.isfinite(value) for value in (*fit.slopes, fit.intercept_ms))
    except OverflowError:
        finite = False
    if not finite:
        return FitOutcome(None, UNSOLVABLE)
    # With no more rows than axes a flat answer is the whole truth; with more it means that load explains nothing.
    if not fit.choice.face.axes and len(rows) > len(axes):
        return FitOutcome(None, NO_LOAD_SIGNAL)
    return FitOutcome(fit, None)


class LinearModel:
    """The fit in service: replaced by a usable one, kept where load explains nothing, dropped on other failures.

    With `keeps_earlier` off it is dropped on every failure.
    """

    def __init__(self, min_observations: int = 5, *, keeps_earlier: bool = True) -> None:
        self.min_observations = min_observations
        self.keeps_earlier = keeps_earlier
        self.fit: LinearFit | None = None
        self.reason: str | None = COLD

    def update(self, rows: Sequence[tuple[float, float, float]]) -> None:
        """Refit to all the retained rows of attention, FFN and ms."""
        outcome = fit_rows(rows, self.min_observations)
        if self.keeps_earlier and outcome.fit is None and outcome.reason == NO_LOAD_SIGNAL and self.fit is not None:
            return
        self.fit = outcome.fit
        self.reason = outcome.reason

    def predict_ms(self, features: Sequence[float]) -> float | None:
        """Served answer in ms, never below the floor, or None without a fit or for an invalid query."""
        if self.fit is None or not all(math.isfinite(value) and value >= 0.0 for value in features):
            return None
        return max(self.fit.raw_ms(features), FLOOR_MS)
