"""Least squares with a free intercept and no negative slope, by looking at every set of axes that may carry a slope."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .moments import Moments

ATTENTION, FFN, TARGET = 0, 1, 2

# Shares below are of squared quantities; see the rules in `choose_face`.
VARYING_SHARE = Fraction(1, 10**12)
SINGULAR_SHARE = Fraction(1, 10**12)
TIE_SHARE = Fraction(1, 10**12)
COLLINEAR_TIE_SHARE = Fraction(1, 10**10)
NOISE_SHARE = Fraction(1, 10**12)


@dataclass(frozen=True)
class Face:
    """One set of axes with its unconstrained solution: slopes in ms per unit, residual in ms squared."""

    axes: tuple[int, ...]
    slopes: tuple[Fraction, Fraction]
    residual: Fraction


@dataclass(frozen=True)
class Choice:
    """The winning face, how independent the two axes were, and whether two single-axis faces came out equal."""

    face: Face
    one_minus_rho2: Fraction | None
    single_axis_tie: bool


def varying_axes(moments: Moments) -> tuple[int, ...]:
    """Axes whose standard deviation is above 1e-12 of their mean."""
    return tuple(
        axis for axis in (ATTENTION, FFN) if moments.variance(axis) > (VARYING_SHARE * moments.means[axis]) ** 2
    )


def independence(moments: Moments) -> Fraction:
    """One minus the squared correlation of the two axes, both of which must vary."""
    c = moments.scatter
    return 1 - c[ATTENTION][FFN] ** 2 / (c[ATTENTION][ATTENTION] * c[FFN][FFN])


def single_axis_face(moments: Moments, axis: int) -> Face:
    """Least squares on one axis."""
    c = moments.scatter
    slope = c[axis][TARGET] / c[axis][axis]
    slopes = (slope, Fraction(0)) if axis == ATTENTION else (Fraction(0), slope)
    return Face((axis,), slopes, c[TARGET][TARGET] - slope * c[axis][TARGET])


def two_axis_face(moments: Moments) -> Face:
    """Least squares on both axes, which must not be collinear."""
    c = moments.scatter
    determinant = c[ATTENTION][ATTENTION] * c[FFN][FFN] - c[ATTENTION][FFN] ** 2
    attention = (c[ATTENTION][TARGET] * c[FFN][FFN] - c[FFN][TARGET] * c[ATTENTION][FFN]) / determinant
    ffn = (c[FFN][TARGET] * c[ATTENTION][ATTENTION] - c[ATTENTION][TARGET] * c[ATTENTION][FFN]) / determinant
    residual = c[TARGET][TARGET] - attention * c[ATTENTION][TARGET] - ffn * c[FFN][TARGET]
    return Face((ATTENTION, FFN), (attention, ffn), residual)


def carries_load(moments: Moments, face: Face) -> bool:
    """Whether each slope of the face is positive and moves the target by 1e-12 of its standard deviation or more."""
    c = moments.scatter
    return all(
        face.slopes[axis] > 0 and face.slopes[axis] ** 2 * c[axis][axis] >= NOISE_SHARE**2 * c[TARGET][TARGET]
        for axis in face.axes
    )


def choose_face(moments: Moments) -> Choice:
    """The face of smallest residual among those whose slopes are all positive, else the face with no slope.

    Residuals that differ by 1e-12 of the target's scatter or less are equal and the earlier face wins, in the order
    attention, FFN, both. Axes with one minus squared correlation of 1e-12 or less are collinear: the two-axis
    face is left out, and the remaining two are equal up to 1e-10 of the target's scatter.
    """
    axes = varying_axes(moments)
    singles = [face for face in (single_axis_face(moments, axis) for axis in axes) if carries_load(moments, face)]
    candidates = list(singles)
    one_minus_rho2 = None
    tie_share = TIE_SHARE
    if len(axes) == 2:
        one_minus_rho2 = independence(moments)
        if one_minus_rho2 <= SINGULAR_SHARE:
            tie_share = COLLINEAR_TIE_SHARE
        else:
            both = two_axis_face(moments)
            if carries_load(moments, both):
                candidates.append(both)
    scatter = moments.scatter[TARGET][TARGET]
    if not candidates:
        return Choice(Face((), (Fraction(0), Fraction(0)), scatter), one_minus_rho2, False)
    smallest = min(face.residual for face in candidates)
    equal = [face for face in candidates if face.residual <= smallest + tie_share * scatter]
    tie = sum(len(face.axes) == 1 for face in equal) == 2
    return Choice(equal[0], one_minus_rho2, tie)
