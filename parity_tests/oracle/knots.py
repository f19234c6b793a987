"""The knot search: knots are moved one at a time through a fixed grid for as long as the residual falls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .nonnegative import Array
from .spline import AXES, REAL, Epoch, SplineFit, fit_spline

SWEEPS = 2
GRID_PARTS = 20
"""Candidates stand at every multiple of one over this, as a quantile."""
GEOMETRIC_PARTS = 18
SMALLEST_POSITIVE = 1e-8
NEIGHBOUR_GAP = 1e-10
LEAST_GAIN = 1e-12
"""In ms squared."""
LEAST_GAIN_SHARE = 1e-10
"""As a share of the target's scatter."""


@dataclass(frozen=True)
class Search:
    """The knots that a search ended with and their fit, which is None where no fit is possible.

    `closest` is the least distance of a compared residual from the bound that decided, as a share of the target's
    scatter; equal residuals are at `LEAST_GAIN_SHARE`. It is None where nothing was compared.
    """

    epoch: Epoch
    fit: SplineFit | None
    fits: int
    closest: float | None


def quantile(ordered: Array, numerator: int, denominator: int) -> np.floating:
    """Quantile of ordered values, on the line between the two order statistics beside it."""
    place, part = divmod((len(ordered) - 1) * numerator, denominator)
    value: np.floating = ordered[place]
    if part > 0:
        value = value + (ordered[place + 1] - value) * part / denominator
    return value


def initial_knots(ordered: Array, knots_per_axis: int) -> Array:
    """Evenly spaced quantiles of the ordered distinct values, fewer where there are few values."""
    count = min(knots_per_axis, len(ordered) - 1)
    return np.unique(np.array([quantile(ordered, j, count + 1) for j in range(1, count + 1)], REAL))


def candidate_knots(ordered: Array) -> Array:
    """Quantiles and geometrically spaced points of the ordered distinct values."""
    grid = [quantile(ordered, j, GRID_PARTS) for j in range(1, GRID_PARTS)]
    positive = ordered[ordered > 0.0]
    if len(positive) > 0:
        low, high = max(positive[0], REAL(SMALLEST_POSITIVE)), positive[-1]
        grid += [low * (high / low) ** (REAL(j) / GEOMETRIC_PARTS) for j in range(1, GEOMETRIC_PARTS)]
    return np.unique(np.array(grid, REAL))


def search_knots(
    features: Array,
    targets_ms: Array,
    knots_per_axis: int,
    previous: Epoch | None,
    weights: Array | None = None,
) -> Search:
    """Search the knots for rows of raw features and ms, beginning at quantiles or at the previous epoch's knots.

    The rows count by their weights, if any are given; the candidates know nothing of weights.
    """
    largest = features.max(axis=0)
    scales = (largest[0] if largest[0] > 0.0 else REAL(1), largest[1] if largest[1] > 0.0 else REAL(1))
    ordered = [np.unique(features[:, axis] / scales[axis]) for axis in AXES]
    initial = (initial_knots(ordered[0], knots_per_axis), initial_knots(ordered[1], knots_per_axis))
    best = fit_spline(features, targets_ms, Epoch(scales, initial), weights)
    if best is None:
        return Search(Epoch(scales, initial), None, 1, None)
    least_gain = max(REAL(LEAST_GAIN), LEAST_GAIN_SHARE * best.scatter)
    fits = 1
    closest: float | None = None

    def try_knots(knots: tuple[Array, Array]) -> None:
        nonlocal best, fits, closest
        assert best is not None
        fits += 1
        fit = fit_spline(features, targets_ms, Epoch(scales, knots), weights)
        if fit is None:
            return
        bound = best.residual - least_gain
        if fit.scatter > 0.0:
            distance = float(abs(fit.residual - bound) / fit.scatter)
            closest = distance if closest is None else min(closest, distance)
        if fit.residual < bound:
            best = fit

    if previous is not None and all(len(previous.knots[axis]) == len(initial[axis]) for axis in AXES):
        first, second = (previous.knots[axis] * previous.scales[axis] / scales[axis] for axis in AXES)
        try_knots((first, second))
    grids = [candidate_knots(values) for values in ordered]
    for _ in range(SWEEPS):
        for axis in AXES:
            for place in range(len(best.epoch.knots[axis])):
                here = best.epoch.knots[axis]
                low = (here[place - 1] if place > 0 else REAL(0)) + NEIGHBOUR_GAP
                high = (here[place + 1] if place + 1 < len(here) else ordered[axis][-1]) - NEIGHBOUR_GAP
                for candidate in grids[axis]:
                    if low < candidate < high:
                        moved = here.copy()
                        moved[place] = candidate
                        other = best.epoch.knots[1 - axis]
                        try_knots((moved, other) if axis == 0 else (other, moved))
    return Search(best.epoch, best, fits, closest)
