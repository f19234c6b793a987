"""What was tried for the adaptive fit, and what it gave: the table behind its defaults.

Each variant is a configuration. They are compared on half of the vLLM recordings, every other one
in the order of their names, and reported on the other half and on all as well.

Run `make choices`, or `python benchmarks/choices.py --write` where forepass is installed.
"""

import statistics
from pathlib import Path
from typing import Any

import forepass
from evidence_file import Body, Evidence, name_of, recordings

AUTO: dict[str, Any] = {"kind": "auto"}
RELATIVE: dict[str, Any] = {"weighting": "relative"}
ROBUST: dict[str, Any] = {"weighting": "relative", "huber": 0.7}
TRACKED: dict[str, Any] = {**ROBUST, "level_tracking": True}
FRESH: dict[str, Any] = {"recent": 32, "max_age": 4096}


def variant(fit: dict[str, Any], sampling: dict[str, Any] | None = None) -> dict[str, Any]:
    """The configuration of a fit and a retention."""
    regression: dict[str, Any] = {"fit": fit}
    if sampling is not None:
        regression["sampling"] = sampling
    return {"fpm_regression": regression}


VARIANTS: dict[str, dict[str, Any]] = {
    "line, least squares": variant({"kind": "linear"}),
    "line, relative": variant({"kind": "linear", **RELATIVE}),
    "line, relative and robust": variant({"kind": "linear", **ROBUST}),
    "line, relative and robust, fresh rows": variant({"kind": "linear", **ROBUST}, FRESH),
    "line, tracked": variant({"kind": "linear", **TRACKED}, FRESH),
    "spline, least squares": variant({"kind": "spline"}),
    "spline, relative and robust": variant({"kind": "spline", **ROBUST}),
    "spline, relative and robust, fresh rows": variant({"kind": "spline", **ROBUST}, FRESH),
    "spline, tracked": variant({"kind": "spline", **TRACKED}, FRESH),
    "auto without tracking": variant({**AUTO, "level_tracking": False}),
    "auto, absolute errors": variant({**AUTO, "weighting": "absolute"}),
    "auto, huber 0.4": variant({**AUTO, "huber": 0.4}),
    "auto": variant(AUTO),
    "auto, huber 1": variant({**AUTO, "huber": 1.0}),
    "auto, huber 1.5": variant({**AUTO, "huber": 1.5}),
    "auto, huber 3": variant({**AUTO, "huber": 3.0}),
    "auto, none recent": variant(AUTO, {"recent": 0}),
    "auto, 16 recent": variant(AUTO, {"recent": 16}),
    "auto, 48 recent": variant(AUTO, {"recent": 48}),
    "auto, age 512": variant(AUTO, {"max_age": 512}),
    "auto, 128 rows": variant(AUTO, {"max_observations": 128}),
    "auto, 8 by 8 cells": variant(AUTO, {"bins_per_axis": [8, 8]}),
}


def config(estimator: dict[str, Any]) -> forepass.ForwardPassPerfModelConfig:
    """A configuration without a deployment."""
    return forepass.ForwardPassPerfModelConfig.for_worker("aggregated", estimator)


def score(path: Path) -> dict[str, dict[str, Any]]:
    """Errors of each variant on one recording: on all rows, and on mixed ones."""
    fits = [(name, config(estimator)) for name, estimator in VARIANTS.items()]
    report = forepass.replay(path, fits=fits, baselines=False).to_dict()
    return {
        result["fit"]: {
            "recording": name_of(path),
            **errors(result["overall"]),
            "mixed": errors(result["by_kind"].get("contains_locally_mixed", {})),
        }
        for result in report["results"]
    }


def errors(stats: dict[str, Any]) -> dict[str, float | None]:
    """Those statistics by which variants are compared."""
    return {key: stats.get(key) for key in ("coverage_pct", "mape_pct", "median_ape_pct")}


def summary(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over recordings, and the median recording."""
    mixed = [score["mixed"] for score in scores if score["mixed"]["mape_pct"] is not None]
    if not mixed:
        return {}
    return {
        "macro_mape_pct": statistics.fmean(s["mape_pct"] for s in scores),
        "median_of_median_ape_pct": statistics.median(s["median_ape_pct"] for s in scores),
        "mixed_macro_mape_pct": statistics.fmean(s["mape_pct"] for s in mixed),
        "mixed_macro_median_ape_pct": statistics.fmean(s["median_ape_pct"] for s in mixed),
    }


def vllm_recordings() -> list[Path]:
    """The recordings of vLLM on production GPUs that are at hand."""
    paths = (path for path in recordings() if path.parent.name == "b300")
    return [path for path in paths if "trtllm" not in path.name]


def measure(paths: list[Path]) -> Body:
    """Scores every variant on each recording."""
    scores = {name_of(path): score(path) for path in paths}
    names = list(scores)
    halves = {"compared": names[::2], "held_out": names[1::2], "all": names}
    variants = []
    for name, estimator in VARIANTS.items():
        row = {
            half: summary([scores[member][name] for member in members])
            for half, members in halves.items()
        }
        cases = [by_variant[name] for by_variant in scores.values()]
        cases.sort(key=lambda case: -(case["mape_pct"] or 0.0))
        variants.append(
            {"variant": name, "estimator_config": estimator, **row, "by_recording": cases}
        )
        figures = (f"{half} {row[half].get('macro_mape_pct', 0.0):.2f}" for half in halves)
        print(f"{name:42}", ", ".join(figures))
    return {"halves": halves, "variants": variants}


CHOICES = Evidence("choices", "make choices", vllm_recordings, measure)

if __name__ == "__main__":
    CHOICES.main()
