"""Nonnegative least squares on a few unit columns, by one fixed path where the columns depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]

ENTRY_SHARE = 1e-12
"""A gradient of this share of the target's length or less gains nothing."""
TIE_SHARE = 1e-9
"""Gradients within this share of the largest are equal, and the first of their columns enters."""
DEPENDENT_SQUARED = 1e-12
"""A unit column whose squared distance from the span of others is this or less depends on them."""
STEPS_LIMIT = 10_000


class Span:
    """Columns as an orthonormal basis times a triangle, in the order in which they were added."""

    def __init__(self, rows: int, most_columns: int, dtype: npt.DTypeLike) -> None:
        self._basis = np.zeros((most_columns, rows), dtype)
        self._triangle = np.zeros((most_columns, most_columns), dtype)
        self.size = 0

    def add_if_independent(self, column: Array) -> bool:
        """Add a unit column, unless it depends on those that are here."""
        basis = self._basis[: self.size]
        shares = basis @ column
        rest = column - shares @ basis
        # Twice is enough: the second pass removes what rounding left of the first.
        again = basis @ rest
        rest = rest - again @ basis
        squared = rest @ rest
        if squared <= DEPENDENT_SQUARED:
            return False
        length = np.sqrt(squared)
        self._triangle[: self.size, self.size] = shares + again
        self._triangle[self.size, self.size] = length
        self._basis[self.size] = rest / length
        self.size += 1
        return True

    def solve(self, target: Array) -> Array:
        """Least-squares coefficients of the columns, in the order in which they were added."""
        coefficients = self._basis[: self.size] @ target
        for i in range(self.size - 1, -1, -1):
            rest = self._triangle[i, i + 1 : self.size] @ coefficients[i + 1 :]
            coefficients[i] = (coefficients[i] - rest) / self._triangle[i, i]
        return coefficients


def span_of(columns: Array, members: Sequence[int]) -> Span:
    """The span of columns that are independent of each other."""
    span = Span(columns.shape[0], columns.shape[1], columns.dtype)
    for member in members:
        if not span.add_if_independent(columns[:, member]):
            raise ArithmeticError("columns in use have become dependent")
    return span


def independent_columns(columns: Array) -> int:
    """How many unit columns, taken from left to right, do not depend on those taken before."""
    span = Span(columns.shape[0], columns.shape[1], columns.dtype)
    return sum(span.add_if_independent(columns[:, j]) for j in range(columns.shape[1]))


def nonnegative_least_squares(columns: Array, target: Array) -> Array:
    """Coefficients of unit columns, none negative, that bring their sum closest to the target.

    Columns enter one at a time, the steepest first. One that depends on the columns in use is set aside until one
    of those is dropped, so where columns are dependent the answer is that of this order of entry.
    """
    coefficients = np.zeros(columns.shape[1], columns.dtype)
    threshold = ENTRY_SHARE * np.sqrt(target @ target)
    used: list[int] = []
    aside: set[int] = set()
    span = span_of(columns, used)
    for _ in range(STEPS_LIMIT):
        gradient = columns.T @ (target - columns @ coefficients)
        waiting = [j for j in range(columns.shape[1]) if j not in used and j not in aside]
        largest = max((gradient[j] for j in waiting), default=0.0)
        if not largest > threshold:
            return coefficients
        entering = next(j for j in waiting if gradient[j] >= (1.0 - TIE_SHARE) * largest)
        if not span.add_if_independent(columns[:, entering]):
            aside.add(entering)
            continue
        used.append(entering)
        while np.any((optimum := span.solve(target)) <= 0.0):
            dropped = _move_until_first_zero(coefficients, used, optimum)
            used = [j for j in used if j not in dropped]
            if dropped != {entering}:
                aside.clear()
            if entering in dropped:
                aside.add(entering)
            span = span_of(columns, used)
        coefficients[:] = 0.0
        coefficients[used] = optimum
    raise ArithmeticError("no end to the exchange of columns")


def _move_until_first_zero(coefficients: Array, used: Sequence[int], optimum: Array) -> set[int]:
    """Move towards the optimum as far as no coefficient turns negative; those that reached zero are returned."""
    here = coefficients[list(used)]
    steps = np.full(len(used), np.inf, coefficients.dtype)
    for i in np.flatnonzero(optimum <= 0.0):
        steps[i] = here[i] / (here[i] - optimum[i]) if here[i] > 0.0 else 0.0
    step = steps.min()
    coefficients[list(used)] = here + step * (optimum - here)
    dropped = {j for j, s in zip(used, steps, strict=True) if s == step}
    coefficients[list(dropped)] = 0.0
    return dropped
