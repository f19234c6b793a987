"""Weighted fits of a line and of a spline in which rows far off count less, four in a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .linear import CONSTANT_LOAD, FLOOR_MS, NO_LOAD_SIGNAL, UNSOLVABLE
from .nonnegative import Array, nonnegative_least_squares
from .spline import REAL, Epoch, SplineFit, fit_spline

ROUNDS = 4
LEAST_SPREAD = 0.001
NORMAL_SPREAD = 1.4826
"""The standard deviation of a normal distribution over the median of its absolute values."""
CONSTANT_SHARE = 1e-12


@dataclass(frozen=True)
class Line:
    """Height in ms at no load and slopes in ms per unit of each feature."""

    intercept_ms: np.floating
    slopes: Array

    @property
    def ready(self) -> bool:
        """Whether load explains anything."""
        return bool(np.any(self.slopes > 0.0))

    def heights_ms(self, features: Array) -> Array:
        """Heights in ms at rows of raw features, without the floor."""
        heights: Array = self.intercept_ms + features @ self.slopes
        return heights


def scaled_to_rows(weights: Array) -> Array:
    """Weights that sum to the number of rows."""
    scaled: Array = weights * (len(weights) / weights.sum())
    return scaled


def first_weights(targets_ms: Array) -> Array:
    """Weights that make errors relative to the latency."""
    return scaled_to_rows(1.0 / targets_ms**2)


def weights_after(heights_ms: Array, targets_ms: Array, huber: float) -> Array:
    """Weights that follow from the errors of a fit."""
    forecasts_ms = np.maximum(heights_ms, FLOOR_MS)
    scales = np.maximum(forecasts_ms, targets_ms)
    errors = np.abs(forecasts_ms - targets_ms) / scales
    bound = huber * max(LEAST_SPREAD, NORMAL_SPREAD * np.sort(errors)[len(errors) // 2])
    with np.errstate(divide="ignore"):
        shares = np.where(errors > bound, bound / errors, 1.0)
    return scaled_to_rows(shares / scales**2)


def unit_columns(columns: Array) -> tuple[Array, Array]:
    """Columns brought to length 1, with their lengths; a column of zeros stays."""
    lengths = np.sqrt((columns * columns).sum(axis=0))
    return columns / np.where(lengths > 0.0, lengths, 1.0), lengths


def fit_line(features: Array, targets_ms: Array, weights: Array) -> Line | str:
    """The weighted line without a negative slope, through zero where it would be below it; or a reason against one."""
    rows = len(targets_ms)
    roots = np.sqrt(weights)
    means = weights @ features / rows
    centred = roots[:, None] * (features - means)
    unit, lengths = unit_columns(centred)
    varying = lengths / np.sqrt(REAL(rows)) > CONSTANT_SHARE * means
    if not np.any(varying):
        return CONSTANT_LOAD
    mean_ms = REAL(weights @ targets_ms / rows)
    slopes = np.zeros(features.shape[1], REAL)
    slopes[varying] = nonnegative_least_squares(unit[:, varying], roots * (targets_ms - mean_ms)) / lengths[varying]
    intercept_ms = REAL(mean_ms - slopes @ means)
    if intercept_ms < 0.0:
        unit, lengths = unit_columns(roots[:, None] * features)
        used = varying & (lengths > 0.0)
        slopes = np.zeros(features.shape[1], REAL)
        slopes[used] = nonnegative_least_squares(unit[:, used], roots * targets_ms) / lengths[used]
        intercept_ms = REAL(0)
    if not np.all(np.isfinite([float(intercept_ms), *map(float, slopes)])):
        return UNSOLVABLE
    return Line(intercept_ms, slopes)


def robust_line(features: Array, targets_ms: Array, huber: float) -> Line | str:
    """The line after four rounds, or a reason against one."""
    weights = first_weights(targets_ms)
    line: Line | str = CONSTANT_LOAD
    for _ in range(ROUNDS):
        line = fit_line(features, targets_ms, weights)
        if isinstance(line, str):
            return line
        if not line.ready:
            return NO_LOAD_SIGNAL
        weights = weights_after(line.heights_ms(features), targets_ms, huber)
    return line


def spline_heights_ms(fit: SplineFit, features: Array) -> Array:
    """Heights in ms at rows of raw features, without the floor."""
    heights: Array = fit.mean_ms + (fit.epoch.columns(features) - fit.mean_columns) @ fit.slopes
    return heights


def robust_spline(features: Array, targets_ms: Array, epoch: Epoch, huber: float) -> SplineFit | None:
    """The spline at given knots after four rounds; None where a fit fails or no slope is positive."""
    weights = first_weights(targets_ms)
    fit: SplineFit | None = None
    for _ in range(ROUNDS):
        if fit is not None:
            weights = weights_after(spline_heights_ms(fit, features), targets_ms, huber)
        fit = fit_spline(features, targets_ms, epoch, weights)
        if fit is None:
            return None
    return fit if fit is not None and fit.ready else None
