"""Fits at fixed knots: the oracle against SciPy and the conditions of a minimum, and the product's answers if given."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls  # type: ignore[import-untyped]

from oracle.fixed_knot_problems import FAMILIES, Problem, fault, problems, steepness, write_problems
from oracle.nonnegative import independent_columns, nonnegative_least_squares
from oracle.spline import REAL

REPOSITORY = Path(__file__).resolve().parent.parent

SCIPY_SHARE = 1e-10
"""SciPy works in doubles and has another idea of dependent columns; of the target's scatter."""


@cache
def all_problems() -> tuple[Problem, ...]:
    return tuple(problems())


def answer_of(problem: Problem) -> dict[str, Any]:
    return {
        "number": problem.number,
        "slopes": [float(slope) for slope in problem.slopes],
        "residual": problem.expected_residual,
    }


def test_the_problems_are_many_and_of_every_kind() -> None:
    assert len(all_problems()) >= 1_200
    assert {problem.family for problem in all_problems()} == set(FAMILIES)
    assert all(len(problem.slopes) == 8 for problem in all_problems())
    scales = np.array([problem.scales for problem in all_problems()])
    assert scales.min() < 1e-11 and scales.max() > 1e8
    dependent = 0
    for problem in all_problems():
        unit = problem.system()[0].unit
        dependent += independent_columns(unit) < unit.shape[1]
    assert len(all_problems()) / 4 < dependent < len(all_problems()) * 3 / 4


def test_scipy_achieves_what_the_oracle_achieves() -> None:
    for problem in all_problems():
        columns, target = problem.system()
        if columns.unit.shape[1] == 0 or problem.scatter == 0.0:
            assert not problem.slopes.any()
            continue
        _, distance = nnls(columns.unit.astype(np.float64), target.astype(np.float64))
        apart = abs(distance**2 - problem.expected_residual)
        assert apart <= SCIPY_SHARE * problem.scatter, (problem.number, problem.family, apart / problem.scatter)


def test_the_oracle_stands_at_a_minimum() -> None:
    for problem in all_problems():
        assert np.all(problem.slopes >= 0.0)
        steep = steepness(problem, problem.slopes)
        # A column that was set aside as dependent may still be a little steep, others are not.
        assert steep.used < 1e-15 and steep.unused < 1e-9, (problem.number, problem.family, steep)


def test_plain_least_squares_is_the_answer_where_it_is_positive() -> None:
    compared = 0
    for problem in all_problems():
        columns, target = problem.system()
        unit = columns.unit.astype(np.float64)
        # Far enough from dependent that doubles solve it to nine digits.
        if unit.shape[1] == 0 or np.linalg.cond(unit) > 1e4:
            continue
        plain = np.linalg.lstsq(unit, target.astype(np.float64), rcond=None)[0]
        if np.all(plain > 0.0):
            coefficients = (problem.slopes[columns.varying] * columns.lengths).astype(np.float64)
            assert coefficients == pytest.approx(plain, rel=1e-9)
            compared += 1
    assert compared > 50


@pytest.mark.parametrize("unit", [1e-21, 1e-12, 1.0, 1e9])
def test_the_unit_of_the_target_does_not_matter(unit: float) -> None:
    for problem in all_problems()[:160]:
        columns, target = problem.system()
        once = nonnegative_least_squares(columns.unit, target)
        scaled = nonnegative_least_squares(columns.unit, target * REAL(unit)) / REAL(unit)
        length = float(np.sqrt(target @ target))
        assert scaled.astype(np.float64) == pytest.approx(once.astype(np.float64), abs=1e-12 * length)


# --- the product ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo to build the example that answers")
def test_the_product_solves_them_too(tmp_path: Path) -> None:
    asked, answered = tmp_path / "problems.json", tmp_path / "answers.json"
    write_problems(asked)
    build = ["cargo", "run", "--quiet", "--package", "forepass", "--example", "fixed_knots", "--"]
    subprocess.run([*build, asked, answered], cwd=REPOSITORY, check=True)
    read = json.loads(answered.read_text())["answers"]
    answers = {answer["number"]: answer for answer in read}
    assert answers.keys() == {problem.number for problem in all_problems()}
    faults = [
        f"problem {problem.number} ({problem.family}): {text}"
        for problem in all_problems()
        if (text := fault(problem, answers[problem.number])) is not None
    ]
    if faults:
        listed = "\n  ".join(faults[:5])
        pytest.fail(f"{len(faults)} of {len(all_problems())} answers are wrong, the first:\n  {listed}", pytrace=False)


def test_the_file_holds_every_bit_of_the_problems(tmp_path: Path) -> None:
    path = tmp_path / "problems.json"
    write_problems(path)
    read = json.loads(path.read_text())["problems"]
    assert len(read) == len(all_problems())
    for line, problem in zip(read, all_problems(), strict=True):
        assert np.array_equal(np.array(line["rows"]), problem.rows)
        assert line["scales"] == list(problem.scales)
        assert line["knots"] == [knots.tolist() for knots in problem.knots]


def test_the_oracle_in_doubles_passes_as_an_answer() -> None:
    assert [fault(problem, answer_of(problem)) for problem in all_problems()] == [None] * len(all_problems())


def a_problem_with_load() -> Problem:
    return next(problem for problem in all_problems() if np.count_nonzero(problem.slopes) == 8)


def test_the_judgement_bites() -> None:
    problem = a_problem_with_load()
    right = answer_of(problem)
    wrong_slopes = [
        [-1e-30, *right["slopes"][1:]],
        [float("nan"), *right["slopes"][1:]],
        right["slopes"][1:],
        [0.0] * 8,
        [*right["slopes"][:4], *reversed(right["slopes"][4:])],
    ]
    for slopes in wrong_slopes:
        assert fault(problem, right | {"slopes": slopes}) is not None
    reported = right | {"residual": problem.expected_residual + 2e-9 * problem.scatter}
    assert (fault(problem, reported) or "").startswith("residual: reported")
    assert (fault(problem, right | {"residual": float("nan")}) or "").startswith("residual: reported")
    nudged = right | {"slopes": [right["slopes"][0] * (1 + 1e-6), *right["slopes"][1:]]}
    assert (fault(problem, nudged) or "").startswith("steepness: ")
    constant = next(problem for problem in all_problems() if not problem.system()[0].varying.all())
    free_ride = np.where(constant.system()[0].varying, constant.slopes, 1.0).astype(np.float64)
    assert (fault(constant, answer_of(constant) | {"slopes": list(free_ride)}) or "").startswith("slopes: ")
