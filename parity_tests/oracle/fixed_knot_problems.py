"""Random spline fits at given knots with their solutions, to hand to the product and to judge its answers by.

`python -m oracle.fixed_knot_problems PROBLEMS.json` writes `{"problems": [PROBLEM, ...]}`, where PROBLEM has `number`,
`family`, `rows` (attention, FFN, ms), `scales` (of each axis) and `knots` (of each axis, over its scale). Answers are
`{"answers": [{"number", "slopes", "residual"}, ...]}`: `slopes` in ms per scaled unit, axis 0 from left to right and
then axis 1, `residual` in ms squared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .nonnegative import Array
from .spline import REAL, CentredColumns, Epoch, centred, fit_spline

COUNT = 1_600
SEED = 20_240_607
KNOTS_PER_AXIS = 3

RESIDUAL_SHARE = 1e-9
"""How far a residual may be from the oracle's, as a share of the target's scatter."""
STATIONARY_SHARE = 1e-8
"""How steep a column may be at an answer, as a share of the target's length: a used one, or an unused one upwards."""

Doubles = npt.NDArray[np.float64]

FAMILIES = (
    "continuous",
    "discrete",
    "duplicated",
    "zero-inflated",
    "collinear",
    "nearly collinear",
    "one constant axis",
    "few rows",
)


@dataclass(frozen=True)
class Problem:
    """Rows of attention, FFN and ms, the knots over the scale of each axis, and the oracle's solution."""

    number: int
    family: str
    rows: Doubles
    knots: tuple[Doubles, Doubles]
    scales: tuple[float, float]
    slopes: Array
    expected_residual: float
    scatter: float

    @property
    def epoch(self) -> Epoch:
        """The knots and scales in the number type of the oracle."""
        first, second = (line.astype(REAL) for line in self.knots)
        return Epoch((REAL(self.scales[0]), REAL(self.scales[1])), (first, second))

    def system(self) -> tuple[CentredColumns, Array]:
        """Centred unit columns and the centred target."""
        targets_ms = self.rows[:, 2].astype(REAL)
        return centred(self.epoch.columns(self.rows[:, :2].astype(REAL))), targets_ms - targets_ms.mean()

    def as_json(self) -> dict[str, Any]:
        """What the product needs to solve it."""
        return {
            "number": self.number,
            "family": self.family,
            "rows": self.rows.tolist(),
            "scales": list(self.scales),
            "knots": [line.tolist() for line in self.knots],
        }


def loads(random: np.random.Generator, family: str) -> Doubles:
    """Loads of two axes between 0 and 1."""
    count = int(random.integers(4, 10)) if family == "few rows" else int(random.integers(16, 65))
    table = random.uniform(0, 1, (count, 2))
    match family:
        case "discrete":
            table = np.ceil(table * random.integers(2, 9, 2)) / 8
        case "duplicated":
            table = table[random.integers(0, max(3, count // 6), count)]
        case "zero-inflated":
            table = table * (random.uniform(0, 1, (count, 2)) < 0.3)
        case "collinear":
            table[:, 1] = table[:, 0] * random.uniform(0.1, 1)
            if random.uniform() < 0.5:
                table = np.ceil(table * 6) / 8
        case "nearly collinear":
            # The last of these is near enough to count as collinear.
            apart = random.choice([1e-2, 1e-3, 1e-4, 1e-9])
            table[:, 1] = table[:, 0] * (1 + apart * random.uniform(-1, 1, count))
        case "one constant axis":
            table[:, int(random.integers(2))] = 0.5
    return table


def durations_ms(random: np.random.Generator, table: Doubles) -> Doubles:
    """Durations of an additive law with a bend on each axis and noise, a falling one or noise alone."""
    bend = random.uniform(0.2, 0.8, 2)
    low, high = random.uniform(0, 50, 2), random.uniform(0, 50, 2)
    law = table @ low + np.clip(table - bend, 0, None) @ high
    law = law * random.choice([1.0, 1.0, 1.0, 0.0, -0.3])
    noise = random.choice([0.0, 1e-3, 0.1, 5.0])
    targets: Doubles = 40.0 + law + noise * random.normal(size=len(table))
    return targets


def problems(count: int = COUNT, seed: int = SEED) -> Iterator[Problem]:
    """Yield problems, each family in turn, at scales from 1e-12 to 1e9."""
    random = np.random.default_rng(seed)
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        table = loads(random, family)
        targets_ms = durations_ms(random, table)
        units = 10.0 ** random.uniform(-12, 9, 2)
        rows = np.column_stack([table * units, targets_ms])
        largest = rows[:, :2].max(axis=0)
        scales = (float(largest[0]) or 1.0, float(largest[1]) or 1.0)
        first, second = (np.sort(random.uniform(0, 1, KNOTS_PER_AXIS)) for _ in range(2))
        if number % 3 == 0:
            # Knots on the loads themselves, as quantiles of discrete loads are.
            first, second = (on_loads(random, rows[:, axis] / scales[axis], (first, second)[axis]) for axis in (0, 1))
        yield solved(number, family, rows, (first, second), scales)


def on_loads(random: np.random.Generator, values: Doubles, otherwise: Doubles) -> Doubles:
    """Knots at loads that occur inside the range, or the others where too few do."""
    inside = np.unique(values[(values > 0) & (values < values.max())])
    return otherwise if len(inside) < KNOTS_PER_AXIS else np.sort(random.choice(inside, KNOTS_PER_AXIS, replace=False))


def solved(
    number: int, family: str, rows: Doubles, knots: tuple[Doubles, Doubles], scales: tuple[float, float]
) -> Problem:
    """The problem with the oracle's solution."""
    bare = Problem(number, family, rows, knots, scales, np.zeros(0, REAL), 0.0, 0.0)
    fit = fit_spline(rows[:, :2].astype(REAL), rows[:, 2].astype(REAL), bare.epoch)
    assert fit is not None
    return Problem(number, family, rows, knots, scales, fit.slopes, float(fit.residual), float(fit.scatter))


@dataclass(frozen=True)
class Steepness:
    """How far slopes are from a minimum, in shares of the target's length; both are 0 at one."""

    used: float
    unused: float


def steepness(problem: Problem, slopes: Sequence[float] | Array) -> Steepness:
    """Largest gradient at given slopes: of columns in use in either direction, of the others upwards."""
    columns, target = problem.system()
    length = np.sqrt(target @ target)
    if length == 0.0:
        return Steepness(0.0, 0.0)
    coefficients = np.array(slopes, REAL)[columns.varying] * columns.lengths
    gradient = columns.unit.T @ (target - columns.unit @ coefficients) / length
    used = coefficients > 0.0
    return Steepness(
        float(np.abs(gradient[used]).max(initial=0.0)), float(np.clip(gradient[~used], 0.0, None).max(initial=0.0))
    )


def fault(problem: Problem, answer: Mapping[str, Any]) -> str | None:
    """What is wrong with an answer, or None.

    Slopes are judged by what they achieve: where columns depend on each other, other slopes do as well.
    """
    slopes = np.array(answer["slopes"], REAL)
    if len(slopes) != len(problem.slopes) or not np.all(np.isfinite(slopes)) or np.any(slopes < 0.0):
        return f"slopes: {answer['slopes']!r}"
    columns, target = problem.system()
    if np.any(slopes[~columns.varying] != 0.0):
        return f"slopes: {answer['slopes']!r}, of which those of constant columns must be 0"
    rest = target - columns.unit @ (slopes[columns.varying] * columns.lengths)
    achieved = float(rest @ rest)
    tolerated = RESIDUAL_SHARE * problem.scatter
    for name, residual in (("achieved", achieved), ("reported", answer["residual"])):
        if not abs(residual - problem.expected_residual) <= tolerated:
            return f"residual: {name} {residual!r}, oracle {problem.expected_residual!r}, scatter {problem.scatter!r}"
    steep = steepness(problem, slopes)
    if not max(steep.used, steep.unused) <= STATIONARY_SHARE:
        return f"steepness: {steep}"
    return None


def write_problems(path: Path) -> None:
    """Write the problems for the product."""
    path.write_text(json.dumps({"problems": [problem.as_json() for problem in problems()]}))


if __name__ == "__main__":
    write_problems(Path(sys.argv[1]))
