"""Errors on loads that were never learned: inside, at the edge of and beyond what was.

Of each recording's pure decode steps (where there are 1,000), in their order, those whose size is
at most the third quartile of all are learned, and every step after the first 200 is predicted
before that. Once the size is the number of requests ("batch"), once KV tokens a request
("context"). Inside are steps up to that quartile, at the edge those up to a third beyond it.

Run `make holdout`, or `python benchmarks/holdout.py --write` where forepass is installed.
"""

import csv
import gzip
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forepass
from choices import ROBUST
from evidence_file import Body, Evidence, fit_config, name_of, recordings

FITS: dict[str, str | dict[str, Any]] = {
    "auto": "auto",
    "linear": "linear",
    "spline": "spline",
    "spline-periodic": "spline-periodic",
    "linear, relative and robust": {"kind": "linear", **ROBUST},
    "spline, relative and robust": {"kind": "spline", **ROBUST},
}
SPLIT = {"learned_quantile": 0.75, "edge_ends_at": 4 / 3, "first_predicted_step": 200}
FEWEST_STEPS = 1000
FEWEST_ERRORS = 30
ZONES = ("inside", "edge", "beyond")

Step = dict[str, float]


def batch(step: Step) -> float:
    """Requests that decode."""
    return step["num_decode_requests"]


def context(step: Step) -> float:
    """KV tokens a request."""
    return step["sum_decode_kv_tokens"] / step["num_decode_requests"]


REGIONS: dict[str, Callable[[Step], float]] = {"batch": batch, "context": context}


def decode_steps(path: Path) -> list[Step]:
    """The steps of a recording that decode and do nothing else."""
    names = ("wall_time", "num_decode_requests", "sum_decode_kv_tokens")
    return [
        {name: float(row[name]) for name in names}
        for row in rows(path)
        if float(row["num_decode_requests"]) > 0 and float(row["sum_prefill_tokens"]) == 0
    ]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a recording of either kind, as flat records."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        if path.name.endswith(".jsonl.gz"):
            for line in lines:
                record = json.loads(line)["metrics"]
                yield {"wall_time": record["wall_time"], **record["scheduled_requests"]}
        else:
            for row in csv.DictReader(lines):
                if "latency_ms" in row:  # the recording without it has no decode steps
                    yield {"wall_time": float(row["latency_ms"]) / 1000, **row}


def zone_of(share: float) -> str:
    """Where a step lies whose size is this share of the largest one that is learned."""
    if share <= 1:
        return "inside"
    return "edge" if share <= SPLIT["edge_ends_at"] else "beyond"


def held_out(steps: list[Step], size: Callable[[Step], float], fit: str | dict[str, Any]) -> Body:
    """Learns what lies inside, and predicts all."""
    end = sorted(map(size, steps))[int(len(steps) * SPLIT["learned_quantile"])]
    model = forepass.ForwardPassModel(worker_type="decode", fit=fit)
    errors: dict[str, list[float | None]] = {zone: [] for zone in ZONES}
    for index, step in enumerate(steps):
        share = size(step) / end
        record = {name: int(value) for name, value in step.items() if name != "wall_time"}
        record["wall_time"] = step["wall_time"]
        observed_ms = 1000 * step["wall_time"]
        if index >= SPLIT["first_predicted_step"] and observed_ms > 0:
            predicted_ms = model.predict(record)
            error = None if predicted_ms is None else predicted_ms / observed_ms - 1
            errors[zone_of(share)].append(error)
        if share <= 1:
            model.observe(record)
    return {"learned_up_to": end, **{zone: stats(errors[zone]) for zone in ZONES}}


def stats(errors: list[float | None]) -> dict[str, Any] | None:
    """Statistics of relative errors; None where they are too few to speak of."""
    if len(errors) < FEWEST_ERRORS:
        return None
    known = [100 * error for error in errors if error is not None]
    sizes = [abs(error) for error in known]
    return {
        "rows": len(errors),
        "coverage_pct": 100 * len(known) / len(errors),
        "median_ape_pct": statistics.median(sizes) if sizes else None,
        "mape_pct": statistics.fmean(sizes) if sizes else None,
        "bias_pct": statistics.fmean(known) if known else None,
    }


def median_ape(case: dict[str, Any], zone: str) -> float | None:
    """The median error of one case in one zone, where it is known."""
    median: float | None = (case[zone] or {}).get("median_ape_pct")
    return median


def summary(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """By zone: over how many recordings, their mean coverage, the mean and worst of medians."""
    zones = {}
    for zone in ZONES:
        known = [case[zone] for case in cases if median_ape(case, zone) is not None]
        if known:
            medians = [stats["median_ape_pct"] for stats in known]
            zones[zone] = {
                "recordings": len(known),
                "macro_coverage_pct": statistics.fmean(stats["coverage_pct"] for stats in known),
                "macro_median_ape_pct": statistics.fmean(medians),
                "worst_median_ape_pct": max(medians),
            }
    return zones


def measure(paths: list[Path]) -> Body:
    """Holds out the largest batches and the longest contexts of each recording, for each fit."""
    steps = {name_of(path): decode_steps(path) for path in paths}
    results = []
    for name, fit in FITS.items():
        for region, size in REGIONS.items():
            cases = [
                {"recording": recording, **held_out(members, size, fit)}
                for recording, members in steps.items()
                if len(members) >= FEWEST_STEPS
            ]
            cases.sort(key=lambda case: -max(median_ape(case, zone) or 0.0 for zone in ZONES))
            result = {"fit": name, "region": region, "summary": summary(cases)}
            results.append({**result, "by_recording": cases})
            medians = (
                f"{zone} {mean['macro_median_ape_pct']:.1f}"
                for zone, mean in result["summary"].items()
            )
            print(f"{name:30} {region:8}", ", ".join(medians))
    return {
        "split": {
            **SPLIT,
            "sizes": {"batch": "requests", "context": "KV tokens a request"},
            "steps": "pure decode, of recordings with at least 1,000",
            "zones": "inside up to the learned quantile, edge up to edge_ends_at times it, beyond",
            "fewest_errors_of_a_zone": FEWEST_ERRORS,
        },
        "configs": {name: fit_config(fit) for name, fit in FITS.items()},
        "results": results,
    }


HOLDOUT = Evidence("holdout", "make holdout", recordings, measure)

if __name__ == "__main__":
    HOLDOUT.main()
