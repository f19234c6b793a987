"""Configurations: the forms they come in, and what is refused by which path."""

from __future__ import annotations

import json
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forepass as fp
from forepass.config import Fit, FpmRegression, Sampling, SplineFit, SplineSearch
from forepass.strict_json import to_json
from steps import refused, state_of, straight_line

CANONICAL: dict[str, Any] = {
    "model": "llama-70b",
    "system": "h200",
    "backend": "vllm",
    "worker_type": "decode",
    "tp_size": 4,
    "estimator_config": {
        "features": {"attention_kv_weight": 2.0},
        "fpm_regression": {
            "min_observations": 7,
            "sampling": {"bins_per_axis": [3, 5], "max_observations": 40},
        },
    },
}
REGRESSION = "estimator_config.fpm_regression"


def regression(**options: Any) -> dict[str, Any]:
    return {**CANONICAL, "estimator_config": {"fpm_regression": options}}


@pytest.fixture
def forms(tmp_path: Path) -> dict[str, Any]:
    text = json.dumps(CANONICAL)
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "config.yaml").write_text(text)
    return {
        "mapping": CANONICAL,
        "text": text,
        "indented text": json.dumps(CANONICAL, indent=2),
        "bytes": text.encode(),
        "path": tmp_path / "config.json",
        "path as text": str(tmp_path / "config.json"),
        "object": fp.ForwardPassPerfModelConfig.load(CANONICAL),
        "its own normal form": fp.ForwardPassModel(CANONICAL).config,
        "NumPy scalars": {**CANONICAL, "tp_size": np.int64(4), "enable_eplb": None},
    }


def test_each_form_gives_the_same_model(forms: dict[str, Any]) -> None:
    expected = fp.ForwardPassModel(CANONICAL).config
    assert expected["tp"] == 4
    assert expected["estimator_config"]["features"]["ffn_token_weight"] == 1.0
    for name, form in forms.items():
        assert fp.ForwardPassModel(form).config == expected, name
        loaded = fp.ForwardPassPerfModelConfig.load(form)
        assert loaded == fp.ForwardPassPerfModelConfig.load(CANONICAL), name
        assert fp.ForwardPassModel(loaded.to_json()).config == expected, name


def test_keywords_stand_for_a_configuration() -> None:
    model = fp.ForwardPassModel(
        worker_type="decode",
        fit={"kind": "linear", "rebuild_interval": 9},
        max_observations=np.int32(40),
        min_observations=7,
        bins_per_axis=(3, 5),
        features={"attention_kv_weight": 2.0},
    )
    estimator = model.config["estimator_config"]
    assert estimator["features"]["attention_kv_weight"] == 2.0
    assert estimator["fpm_regression"] == {
        "sampling": {"bins_per_axis": [3, 5], "max_observations": 40},
        "min_observations": 7,
        "fit": {
            "kind": "standardized_nnls",
            "singular_ridge_scale": 1e-9,
            "rebuild_interval": 9,
        },
    }
    assert fp.ForwardPassModel().config == fp.ForwardPassModel(worker_type="aggregated").config


def test_a_configuration_rebuilds_the_model(taught: fp.ForwardPassModel) -> None:
    twin = fp.ForwardPassModel(taught.config)
    twin.observe_batch(straight_line())
    assert state_of(twin) == state_of(taught)


@pytest.mark.parametrize(
    "keyword",
    [
        {"worker_type": "aggregated"},
        {"fit": "linear"},
        {"max_observations": 64},
        {"min_observations": 5},
        {"bins_per_axis": (4, 4)},
        {"recent": 0},
        {"max_age": 4096},
        {"features": {}},
    ],
    ids=str,
)
def test_a_configuration_excludes_keywords(keyword: dict[str, Any]) -> None:
    error = refused(fp.ConfigError, lambda: fp.ForwardPassModel(CANONICAL, **keyword))
    assert (error.code, error.path) == ("conflict", next(iter(keyword)))


BAD_CONFIGS: dict[str, tuple[Any, str, str]] = {
    "unknown key": ({**CANONICAL, "modle": 1}, "modle", "unknown_field"),
    "unknown nested key": (
        regression(fit={"kind": "linear", "knots": 1}),
        f"{REGRESSION}.fit.knots",
        "unknown_field",
    ),
    "missing key": ({"model": "m"}, "system", "missing_field"),
    "wrong type": ({**CANONICAL, "tp_size": "4"}, "tp_size", "invalid_type"),
    "boolean for a number": (regression(min_observations=True), REGRESSION, "invalid_type"),
    "NaN": (
        {**CANONICAL, "estimator_config": {"features": {"ffn_token_weight": float("nan")}}},
        "estimator_config.features.ffn_token_weight",
        "invalid_value",
    ),
    "infinity": (
        {**CANONICAL, "estimator_config": {"features": {"ffn_token_weight": np.float32("inf")}}},
        "estimator_config.features.ffn_token_weight",
        "invalid_value",
    ),
    "NaN for a count": ({**CANONICAL, "tp_size": float("nan")}, "tp_size", "invalid_type"),
    "more needed than kept": (
        regression(min_observations=9, sampling={"max_observations": 8}),
        f"{REGRESSION}.min_observations",
        "invalid_value",
    ),
    "negative": (regression(min_observations=-1), REGRESSION, "invalid_value"),
    "an integer of 65 bits": ({**CANONICAL, "tp_size": 2**64}, "tp_size", "invalid_value"),
    "an endless integer": ({**CANONICAL, "tp_size": 10**5000}, "tp_size", "invalid_value"),
    "a set": ({**CANONICAL, "tp_size": {1}}, "tp_size", "invalid_type"),
    "bytes in a list": ({**CANONICAL, "systems_paths": ["a", b"b"]}, "systems_paths[1]", ""),
    "an array": (regression(sampling={"bins_per_axis": np.arange(2)}), REGRESSION, "invalid_value"),
    "a complex number": ({**CANONICAL, "tp_size": 1j}, "tp_size", "invalid_type"),
    "a key that is no string": ({**CANONICAL, 5: 1}, "", "invalid_type"),
    "empty": ({}, "", "missing_field"),
    "a list": ([CANONICAL], "", "invalid_type"),
    "a number": (5, "", "invalid_type"),
    "JSON that is cut": (json.dumps(CANONICAL)[:-1], "", "invalid_json"),
    "JSON with 1e400": ('{"tp": 1e400}', "", "invalid_value"),
    "JSON with NaN": ('{"tp": NaN}', "", "invalid_json"),
    "JSON key twice": ('{"tp": 1, "tp": 1}', "tp", "duplicate_field"),
    "both spellings": ({**CANONICAL, "tp": 4}, "tp", "duplicate_field"),
    "binary junk": (bytes(range(256)), "", "invalid_json"),
    "a lone surrogate": ('{"model": "\ud800"}', "", "invalid_json"),
    "a lone surrogate in a mapping": ({**CANONICAL, "model": "\ud800"}, "", "invalid_json"),
    "an absent file": ("absent.json", "absent.json", "unreadable"),
    "a name that no file has": ("a\0b", "a\0b", "unreadable"),
    "a directory": (Path(), ".", "unreadable"),
    "an estimator that is not built": (
        {**CANONICAL, "estimation_mode": "op_level"},
        "estimation_mode",
        "unsupported",
    ),
}


@pytest.mark.parametrize(("bad", "path", "code"), BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_a_bad_configuration_is_refused_by_its_path(bad: Any, path: str, code: str) -> None:
    for call in (fp.ForwardPassModel, fp.ForwardPassPerfModelConfig.load):
        error = refused(fp.ConfigError, lambda call=call: call(bad))  # type: ignore[misc]
        assert error.path.startswith(path)
        assert error.code == (code or error.code)


@pytest.mark.parametrize(
    ("keywords", "path"),
    [
        ({"worker_type": "agg"}, "worker_type"),
        ({"worker_type": 5}, "worker_type"),
        ({"worker_type": "\ud800"}, "worker_type"),
        ({"fit": "cubic"}, "fit"),
        ({"fit": 5}, "fpm_regression.fit"),
        ({"fit": {"kind": "cubic"}}, "fpm_regression.fit.kind"),
        ({"max_observations": 0}, "fpm_regression.sampling.max_observations"),
        ({"max_observations": 1.5}, "fpm_regression.sampling.max_observations"),
        ({"min_observations": 65}, "fpm_regression.min_observations"),
        ({"bins_per_axis": 4}, "fpm_regression.sampling.bins_per_axis"),
        ({"bins_per_axis": [4]}, "fpm_regression.sampling.bins_per_axis"),
        ({"features": {"weight": 1}}, "features.weight"),
        ({"features": 3}, "features"),
    ],
    ids=str,
)
def test_a_bad_keyword_is_refused_by_its_path(keywords: dict[str, Any], path: str) -> None:
    error = refused(fp.ConfigError, lambda: fp.ForwardPassModel(**keywords))
    assert error.path.removeprefix("estimator_config.") == path
    assert path.rpartition(".")[2] in str(error)


def test_nesting_without_end_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["op_level"] = endless
    error = refused(fp.ConfigError, lambda: to_json(endless))
    assert error.path.startswith("op_level.op_level")


def test_a_fault_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"modle": 1}')
    error = refused(fp.ConfigError, lambda: fp.ForwardPassModel(path))
    assert str(path) in str(error)
    assert error.path == "modle"


def test_yaml_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model: m\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    error = refused(fp.ConfigError, lambda: fp.ForwardPassModel(path))
    assert error.code == "missing_package"
    assert "PyYAML" in str(error)


def test_yaml_is_read_where_its_package_is(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = tmp_path / "config.yaml"
    path.write_text("model: m\nsystem: s\nbackend: vllm\nworker_type: decode\ntp: 2\n")
    assert fp.ForwardPassModel(path).config["tp"] == 2
    for text in ("model: [", "tp: !!python/name:os.system x", "when: 2026-11-30", "- 1", "\0"):
        path.write_text(text)
        refused(fp.ConfigError, lambda: fp.ForwardPassModel(path))


def test_objects_hold_what_was_said_and_the_core_fills_in_the_rest() -> None:
    search = SplineSearch(kind="periodic", step=32)
    fit = Fit(kind="spline", spline=SplineFit(knots_per_axis=3, search=search))
    regression = FpmRegression(fit=fit, sampling=Sampling(bins_per_axis=(8, 8)))
    estimator = fp.EstimatorConfig(fpm_regression=regression)
    assert estimator.to_dict() == {
        "fpm_regression": {
            "sampling": {"bins_per_axis": [8, 8]},
            "fit": {
                "kind": "spline",
                "spline": {"knots_per_axis": 3, "search": {"kind": "periodic", "step": 32}},
            },
        }
    }
    config = fp.ForwardPassPerfModelConfig.for_worker("prefill", estimator)
    assert config.normalized() == config
    assert config.estimator_config is not None
    filled = config.estimator_config.fpm_regression
    assert filled is not None
    assert filled.fit is not None
    assert filled.sampling == Sampling(bins_per_axis=(8, 8), max_observations=64)
    assert filled.fit.spline == fit.spline
    with pytest.raises(FrozenInstanceError):
        config.tp = 2  # type: ignore[misc]


def test_flat_options_become_nested_ones() -> None:
    options = {"max_observations": 100, "bucket_count": 25, "regression_moe_token_weight": 3.0}
    estimator = fp.EstimatorConfig.from_legacy(options)
    assert estimator.features is not None
    assert estimator.features.ffn_token_weight == 3.0
    assert estimator.fpm_regression is not None
    expected = Sampling(bins_per_axis=(5, 5), max_observations=100)
    assert estimator.fpm_regression.sampling == expected
    assert fp.EstimatorConfig.from_legacy({}, explicit=estimator) == estimator
    for bad in ({"bucket_count": 5}, {"buckets": 4}, {"max_observations": "9"}, 5, "{}"):
        refused(fp.ConfigError, lambda bad=bad: fp.EstimatorConfig.from_legacy(bad))  # type: ignore[misc]
    explicit = {"fpm_regression": {"min_observations": 6}}
    call = lambda: fp.EstimatorConfig.from_legacy({"min_observations": 7}, explicit)  # noqa: E731
    assert refused(fp.ConfigError, call).code == "conflict"


@pytest.mark.parametrize("fit", ["spline", "spline-periodic"])
def test_a_spline_has_a_name(fit: str) -> None:
    options = fp.ForwardPassModel(fit=fit).config["estimator_config"]["fpm_regression"]["fit"]
    periodic = fit == "spline-periodic"
    assert options["kind"] == "spline"
    assert options["spline"]["search"]["kind"] == ("periodic" if periodic else "adaptive")


@pytest.mark.parametrize(
    "bins", [np.array([4, 8]), range(4, 9, 4), (4, 8), [np.int64(4), 8]], ids=repr
)
def test_any_sequence_of_integers_counts_bins(bins: Any) -> None:
    model = fp.ForwardPassModel(bins_per_axis=bins)
    sampling = model.config["estimator_config"]["fpm_regression"]["sampling"]
    assert sampling["bins_per_axis"] == [4, 8]


@pytest.mark.parametrize(
    "bins",
    [{4, 8}, "44", 4, np.array(4), np.array([4.5, 4]), [[4], [4]], np.ones((2, 2)), object()],
)
def test_other_bins_are_refused_by_their_full_path(bins: Any) -> None:
    error = refused(fp.ConfigError, lambda: fp.ForwardPassModel(bins_per_axis=bins))
    path = "estimator_config.fpm_regression.sampling.bins_per_axis"
    assert error.path.startswith(path)
    assert str(error).startswith(error.path)
