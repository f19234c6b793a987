"""The spline, as a fit of the model, in replays and in inspections."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forepass as fp
from conftest import Command
from steps import decode_step, refused

SPLINES = ("spline", "spline-periodic")
Trace = Callable[..., Path]


def bent(count: int = 200, **metadata: Any) -> list[dict[str, Any]]:
    """Decode steps that get dearer by the request from 16 requests on."""
    counts = (1 + n * 7 % 32 for n in range(count))
    return [
        decode_step(n, 1000 * n, 0.010 + 0.001 * n + 0.004 * max(0, n - 16), **metadata)
        for n in counts
    ]


@pytest.mark.parametrize("fit", SPLINES)
def test_a_spline_answers_where_it_has_learned(fit: str) -> None:
    spline, linear = fp.ForwardPassModel(fit=fit), fp.ForwardPassModel()
    for model in (spline, linear):
        model.observe_batch(bent())
    forecast = spline.forecast(decode_step(24, 24_000))
    assert (forecast.source, forecast.reason) == ("spline", None)
    truth = 10 + 24 + 4 * 8
    error = abs(linear.predict(decode_step(24, 24_000)) or 0.0) - truth
    assert forecast.ms == pytest.approx(truth, abs=min(1.0, abs(error)))
    outside = spline.forecast(decode_step(100, 100_000))
    assert (outside.source, outside.reason) == ("linear", "extrapolating")


@pytest.mark.parametrize("fit", SPLINES)
def test_a_store_tells_of_its_spline(fit: str) -> None:
    model = fp.ForwardPassModel(fit=fit)
    model.observe_batch(bent())
    (store,) = (s for s in model.diagnostics()["stores"] if s["workload_kind"] == "pure_decode")
    assert store["spline"]["ready"]
    assert store["spline"]["knot_searches"] > 0
    assert [len(axis) > 0 for axis in store["spline"]["knots"]] == [True, True]
    assert all("spline" not in s for s in fp.ForwardPassModel().diagnostics()["stores"])


def test_splines_compete_in_a_replay(command: Command) -> None:
    fits = [argument for fit in SPLINES for argument in ("--fit", fit)]
    run = command("replay", "--fit", "linear", *fits, "--json", "-", "--no-baselines")
    assert run.returncode == 0, run.stderr
    result = fp.ReplayResult.from_document(json.loads(run.stdout))
    assert [fit.fit for fit in result.results] == ["linear", *SPLINES]
    linear = result.stats("linear")
    for fit in SPLINES:
        stats = result.stats(fit)
        assert (stats.rows, stats.eligible) == (linear.rows, linear.eligible)
        assert stats.answered > linear.answered / 2
        assert stats != linear


def test_an_inspection_tells_the_knots(command: Command, trace: Trace) -> None:
    path = trace([*bent(worker_id="a"), *bent(3, worker_id="b"), *bent(9)])
    model = fp.ForwardPassModel(fit="spline")
    model.observe_batch(bent())
    (store,) = (s for s in model.diagnostics()["stores"] if s["workload_kind"] == "pure_decode")
    spline = store["spline"]
    run = command("inspect", path, "--knots", "--json", "-")
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert document == fp.inspect(path, knots=True)
    knots = document["inputs"][0]["knots"]
    assert set(knots) == {"a", "b"}
    assert knots["a"] == {
        "pure_decode": {
            "ready": True,
            "accepted_observations": 200,
            "knot_searches": spline["knot_searches"],
            "last_search_observation": spline["last_search_observation"],
            "attention": spline["knots"][0],
            "ffn": spline["knots"][1],
        }
    }
    assert knots["b"]["pure_decode"]["attention"] is None
    text = command("inspect", path, "--knots").stdout
    (of_a, of_b) = (line.split() for line in text.splitlines() if " pure_decode " in line)
    assert (of_a[0], of_a[-3:]) == ("a", ["200", str(spline["knot_searches"]), "yes"])
    assert (of_b[0], of_b[2:]) == ("b", ["-", "-", "3", "0", "no"])
    assert f"{spline['knots'][0][0]:.6g}" in text
    assert "knots" not in fp.inspect(path)["inputs"][0]
    assert "knots" not in command("inspect", path).stdout


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert refused(fp.TraceError, lambda: fp.inspect(pipe, knots=True)).path == str(pipe)
