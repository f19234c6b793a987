"""The additive piecewise-linear fit at given knots: a basis column per segment, a free intercept, no negative slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .nonnegative import Array, independent_columns, nonnegative_least_squares

REAL: type[np.floating] = np.longdouble
"""Number type of all sums and solutions, wider than a double so that rounding does not show in a double."""

CONSTANT_DEVIATION = 1e-12
"""A column whose standard deviation, in the unit of its axis, is this or less is constant."""

AXES = (0, 1)


@dataclass(frozen=True)
class Epoch:
    """What stays fixed between two knot searches: the scale of each axis and its interior knots over that scale."""

    scales: tuple[np.floating, np.floating]
    knots: tuple[Array, Array]

    def raw_knots(self) -> list[list[float]]:
        """Knots of each axis in the features' units."""
        return [[float(knot * scale) for knot in line] for line, scale in zip(self.knots, self.scales, strict=True)]

    def columns(self, features: Array) -> Array:
        """One basis column per segment for rows of raw features: axis 0 from left to right, then axis 1."""
        scaled = [features[:, axis] / self.scales[axis] for axis in AXES]
        return np.hstack([segments(values, knots) for values, knots in zip(scaled, self.knots, strict=True)])


def segments(values: Array, knots: Array) -> Array:
    """How far each value reaches into each segment; the first begins at 0 and the last has no end."""
    left = np.concatenate([np.zeros(1, values.dtype), knots])
    length = np.concatenate([np.diff(left), np.full(1, np.inf, values.dtype)])
    reach: Array = np.clip(values[:, None] - left, 0.0, length)
    return reach


@dataclass(frozen=True)
class SplineFit:
    """Slopes in ms per scaled unit about the means of the columns; scatters in ms squared."""

    epoch: Epoch
    mean_columns: Array
    mean_ms: np.floating
    slopes: Array
    residual: np.floating
    scatter: np.floating

    @property
    def ready(self) -> bool:
        """Whether load explains anything."""
        return bool(np.any(self.slopes > 0.0))

    @property
    def intercept_ms(self) -> float:
        """Height at no load, in ms, rounded once; it may be negative."""
        return float(self.mean_ms - self.slopes @ self.mean_columns)

    def raw_ms(self, features: Sequence[float]) -> float:
        """Height in ms, rounded once, without the floor of served answers."""
        row = self.epoch.columns(np.array([features], REAL))[0]
        return float(self.mean_ms + self.slopes @ (row - self.mean_columns))


@dataclass(frozen=True)
class CentredColumns:
    """Columns less their means, those that vary brought to length 1."""

    means: Array
    varying: npt.NDArray[np.bool_]
    lengths: Array
    unit: Array


def centred(columns: Array, weights: Array | None = None) -> CentredColumns:
    """Centre columns and bring those that vary to length 1; weights, if given, sum to the number of rows."""
    if weights is None:
        means = columns.mean(axis=0)
        deviations = columns - means
    else:
        means = weights @ columns / len(columns)
        deviations = np.sqrt(weights)[:, None] * (columns - means)
    lengths = np.sqrt((deviations * deviations).sum(axis=0))
    varying = lengths > CONSTANT_DEVIATION * np.sqrt(columns.dtype.type(len(columns)))
    return CentredColumns(means, varying, lengths[varying], deviations[:, varying] / lengths[varying])


def fit_spline(features: Array, targets_ms: Array, epoch: Epoch, weights: Array | None = None) -> SplineFit | None:
    """Fit rows of raw features to targets in ms; None without rows or where a moment is beyond a double.

    Rows count by their weights, which sum to the number of rows, and alike where none are given.
    """
    if len(targets_ms) == 0:
        return None
    columns = centred(epoch.columns(features), weights)
    mean_ms = REAL(targets_ms.mean() if weights is None else weights @ targets_ms / len(targets_ms))
    slopes = np.zeros(len(columns.means), REAL)
    if np.all(targets_ms == targets_ms[0]):
        return SplineFit(epoch, columns.means, targets_ms[0], slopes, REAL(0), REAL(0))
    target = targets_ms - mean_ms
    if weights is not None:
        target = np.sqrt(weights) * target
    scatter = REAL(target @ target)
    with np.errstate(over="ignore"):
        in_doubles = np.array([scatter, *columns.means, *columns.lengths**2], np.float64)
    if not np.all(np.isfinite(in_doubles)):
        return None
    coefficients = nonnegative_least_squares(columns.unit, target)
    slopes[columns.varying] = coefficients / columns.lengths
    rest = target - columns.unit @ coefficients
    return SplineFit(epoch, columns.means, mean_ms, slopes, REAL(rest @ rest), scatter)


@dataclass(frozen=True)
class Condition:
    """How many columns of a window vary, and how many of those do not depend on others to their left."""

    varying: int
    independent: int


def condition(features: Array, epoch: Epoch) -> Condition:
    """The rank of a window of raw features at an epoch's knots."""
    unit = centred(epoch.columns(features)).unit
    return Condition(unit.shape[1], independent_columns(unit))
