"""The adaptive fit: what it answers, its intervals, its options, and how a replay scores it."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forepass as fp
from conftest import Command
from forepass.config import FITS, REPLAYED_FITS, Fit, FpmRegression, Sampling
from steps import decode_step, refused, straight_line

Trace = Callable[..., Path]
QUERY = decode_step(20, 20_000)
ADAPTIVE_SOURCES = {"robust_linear", "robust_spline", "tracked_linear", "tracked_spline"}


def noisy_line(count: int = 120) -> list[dict[str, Any]]:
    """Decode steps of 10 ms and 1 ms more a request, but for -4 %, -2 %, 0, 2 % or 4 %."""
    counts = (1 + n * 7 % 32 for n in range(count))
    return [
        decode_step(n, 1000 * n, (0.010 + 0.001 * n) * (1 + 0.02 * (i % 5 - 2)))
        for i, n in enumerate(counts)
    ]


@pytest.fixture
def adaptive() -> fp.ForwardPassModel:
    model = fp.ForwardPassModel(fit="auto")
    model.observe_batch(noisy_line())
    return model


def test_auto_learns_a_line_through_noise(adaptive: fp.ForwardPassModel) -> None:
    forecast = adaptive.forecast(QUERY)
    assert forecast.ms == pytest.approx(30.0, rel=0.04)  # 10 ms + 20 ms, as far off as its noise
    assert forecast.source in ADAPTIVE_SOURCES
    assert (forecast.kind, forecast.reason) == ("pure_decode", None)
    assert adaptive.forecast(decode_step(90, 90_000)).reason == "extrapolating"
    assert adaptive.predict(QUERY) == forecast.ms
    (store,) = (s for s in adaptive.diagnostics()["stores"] if s["workload_kind"] == "pure_decode")
    assert {arm["source"] for arm in store["adaptive"]["arms"]} == ADAPTIVE_SOURCES


def test_an_interval_holds_the_forecast_and_widens_with_its_level(
    adaptive: fp.ForwardPassModel,
) -> None:
    narrow, wide = (adaptive.forecast(QUERY, level) for level in (0.5, 0.9))
    assert narrow.ms == wide.ms == adaptive.forecast(QUERY).ms
    assert wide.low_ms < narrow.low_ms < narrow.ms < narrow.high_ms < wide.high_ms
    assert adaptive.forecast(QUERY, level=0.9) == wide
    # The noise is a fiftieth or two either way, and no forecast is off by more than it.
    assert 30 * 0.85 < wide.low_ms < wide.high_ms < 30 * 1.15


def test_there_is_no_interval_unless_asked_for_and_calibrated() -> None:
    model = fp.ForwardPassModel(fit="auto")
    first = None
    for learned, step in enumerate(noisy_line(40)):
        forecast = model.forecast(QUERY, 0.9)
        assert (forecast.low_ms is None) == (forecast.high_ms is None)
        if forecast.low_ms is not None and first is None:
            first = learned
        model.observe(step)
    # The line answers after 5 steps, and a tail of 1 in 20 takes 19 errors, one a step.
    assert first == 5 + 19
    unasked = model.forecast(QUERY)
    assert unasked.ms is not None
    assert (unasked.low_ms, unasked.high_ms) == (None, None)
    assert model.forecast(QUERY, 0.99).low_ms is None
    idle = model.forecast({"wall_time": 0.0}, 0.9)
    assert (idle.ms, idle.low_ms, idle.high_ms) == (0.0, None, None)


def test_fits_without_intervals_say_none(taught: fp.ForwardPassModel) -> None:
    assert taught.forecast(QUERY, 0.9) == taught.forecast(QUERY)


@pytest.mark.parametrize(
    ("level", "code"),
    [
        (0, "invalid_level"),
        (1, "invalid_level"),
        (90, "invalid_level"),
        (-0.5, "invalid_level"),
        (float("nan"), "invalid_level"),
        (True, "invalid_level"),
        ("0.9", "invalid_type"),
        ([0.9], "invalid_type"),
    ],
)
def test_a_level_is_between_0_and_1(adaptive: fp.ForwardPassModel, level: Any, code: str) -> None:
    error = refused(fp.MetricsError, lambda: adaptive.forecast(QUERY, level))
    assert (error.code, error.path) == (code, "level")
    assert str(error).startswith("level: ")
    assert "between 0 and 1" in str(error) or "expected a number" in str(error)


def test_forecasts_with_intervals_are_values(adaptive: fp.ForwardPassModel) -> None:
    plain, forecast = adaptive.forecast(QUERY), adaptive.forecast(QUERY, 0.9)
    assert plain != forecast
    assert len({plain, forecast, adaptive.forecast(QUERY, 0.9)}) == 2
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(forecast, protocol)) == forecast
    again = copy.deepcopy(forecast)
    assert (again, hash(again), repr(again)) == (forecast, hash(forecast), repr(forecast))
    made = fp.Forecast(2.0, "linear", "pure_decode", None, low_ms=1.0, high_ms=3.5)
    assert repr(made) == (
        "Forecast(ms=2, source='linear', kind='pure_decode', reason=None, low_ms=1, high_ms=3.5)"
    )


OPTIONS: dict[str, tuple[FpmRegression, dict[str, Any]]] = {
    "weighting": (
        FpmRegression(fit=Fit(kind="linear", weighting="relative")),
        {"fit": {"kind": "linear", "weighting": "relative"}},
    ),
    "huber": (FpmRegression(fit=Fit(huber=1.5)), {"fit": {"huber": 1.5}}),
    "level_tracking": (
        FpmRegression(fit=Fit(level_tracking=True)),
        {"fit": {"level_tracking": True}},
    ),
    "recent": (FpmRegression(sampling=Sampling(recent=9)), {"sampling": {"recent": 9}}),
    "max_age": (FpmRegression(sampling=Sampling(max_age=30)), {"sampling": {"max_age": 30}}),
}


@pytest.mark.parametrize(("options", "document"), OPTIONS.values(), ids=OPTIONS)
def test_an_option_travels_both_ways_and_reaches_the_model(
    options: FpmRegression, document: dict[str, Any]
) -> None:
    assert fp.EstimatorConfig(fpm_regression=options).to_dict() == {"fpm_regression": document}
    estimator = fp.EstimatorConfig(fpm_regression=options)
    config = fp.ForwardPassPerfModelConfig.for_worker("aggregated", estimator)
    assert fp.ForwardPassPerfModelConfig.load(config.to_json()) == config
    model, plain = fp.ForwardPassModel(config), fp.ForwardPassModel()
    assert fp.ForwardPassPerfModelConfig.load(model.config) == config
    assert fp.ForwardPassModel(model.config).config == model.config
    (block,) = document
    canonical = model.config["estimator_config"]["fpm_regression"][block]
    (name,) = set(document[block]) - {"kind"}
    assert canonical[name] == document[block][name]
    for either in (model, plain):
        either.observe_batch(noisy_line(200))
    assert model.predict(QUERY) != plain.predict(QUERY)


def test_auto_has_every_option_and_each_can_be_given() -> None:
    filled = fp.ForwardPassModel(fit="auto").config["estimator_config"]["fpm_regression"]
    assert filled["fit"] == {
        "kind": "auto",
        "singular_ridge_scale": 1e-9,
        "rebuild_interval": None,
        "weighting": "relative",
        "huber": 0.7,
        "level_tracking": True,
    }
    assert (filled["sampling"]["recent"], filled["sampling"]["max_age"]) == (32, 4096)
    given = {"kind": "auto", "weighting": "absolute", "huber": 2.0, "level_tracking": False}
    model = fp.ForwardPassModel(fit=given, recent=10, max_age=100, max_observations=40)
    options = model.config["estimator_config"]["fpm_regression"]
    assert given.items() <= options["fit"].items()
    assert options["sampling"] == {
        "bins_per_axis": [4, 4],
        "max_observations": 40,
        "recent": 10,
        "max_age": 100,
    }
    assert fp.ForwardPassModel(model.config).config == model.config


@pytest.mark.parametrize(
    ("keywords", "path"),
    [
        ({"recent": 64}, "sampling.recent"),
        ({"recent": -1}, "sampling.recent"),
        ({"recent": "9"}, "sampling.recent"),
        ({"max_age": 0}, "sampling.max_age"),
        ({"max_age": 1.5}, "sampling.max_age"),
        ({"fit": {"huber": 0}}, "fit.huber"),
        ({"fit": Fit(huber=float("nan"))}, "fit.huber"),
        ({"fit": {"weighting": "squared"}}, "fit.weighting"),
        ({"fit": {"level_tracking": 1}}, "fit.level_tracking"),
        ({"fit": {"kind": "auto", "rebuild_interval": 9}}, "fit.rebuild_interval"),
        ({"fit": {"kind": "auto", "spline": {}}}, "fit.spline"),
        ({"fit": "auto", "max_observations": 31}, "sampling.max_observations"),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_by_its_path(keywords: dict[str, Any], path: str) -> None:
    error = refused(fp.ConfigError, lambda: fp.ForwardPassModel(**keywords))
    assert error.path == f"estimator_config.fpm_regression.{path}"
    assert str(error).startswith(error.path)


def test_a_replay_scores_intervals_of_the_fits_that_know_any(trace: Trace) -> None:
    result = fp.replay(trace(noisy_line(300)))
    assert [fit.fit for fit in result.results] == [*REPLAYED_FITS, "last", "median"]
    assert "auto" in REPLAYED_FITS
    assert set(REPLAYED_FITS) <= set(FITS)
    for fit in ("linear", "last", "median"):
        assert result.stats(fit).intervals is None
    auto = result.stats("auto")
    assert auto.intervals is not None
    assert list(auto.intervals) == ["0.8", "0.9", "0.95"]
    widths = []
    for level, found in auto.intervals.items():
        # After 64 rows each of these levels is calibrated.
        assert found.rows == auto.answered == 300 - 64
        assert found.covered_pct == pytest.approx(100 * float(level), abs=8)
        widths.append(found.mean_width_pct or 0.0)
    assert 0 < widths[0] < widths[1] < widths[2]
    document = json.loads(result.to_json())
    of_90 = document["results"][1]["overall"]["intervals"]["0.9"]
    assert list(of_90) == ["rows", "covered_pct", "mean_width_pct"]
    assert fp.ReplayResult.from_document(document) == result
    assert pickle.loads(pickle.dumps(result)) == result


def test_intervals_that_are_not_calibrated_do_not_count(trace: Trace) -> None:
    result = fp.replay(trace(straight_line(10)), "auto", warmup=0, baselines=False)
    intervals = result.stats("auto").intervals
    assert intervals is not None
    # Nine errors make a tail of 1 in 10; after ten steps, five of them learned cold, none does.
    for found in intervals.values():
        assert (found.rows, found.covered_pct, found.mean_width_pct) == (0, None, None)
    assert "90% intervals" in str(result)
    assert "intervals" not in str(fp.replay(trace(straight_line(10)), "linear"))


def test_the_command_shows_intervals_and_takes_auto_by_name(command: Command, trace: Trace) -> None:
    path = trace(noisy_line(200))
    run = command("replay", path, "--fit", "auto", "--no-baselines")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line.split()[0] for line in lines[4:6]] == ["auto", "auto"]
    assert lines[7].split() == "90% intervals kind rows held mean width".split()
    kind, everything = lines[9].split(), lines[10].split()
    assert (kind[:3], everything[:3]) == (["auto", "pure_decode", "136"], ["auto", "all", "136"])
    assert kind[3].endswith("%")
    assert kind[3:] == everything[3:]
