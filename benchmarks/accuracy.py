"""Accuracy of every fit and baseline over all recordings at hand, worst first.

Run `make accuracy`, or `python benchmarks/accuracy.py --write` where forepass is installed.
"""

import statistics
from pathlib import Path
from typing import Any

import forepass
from evidence_file import Body, Evidence, name_of, recordings

FITS = ("auto", "linear", "spline", "spline-periodic")


def summary(stats: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over recordings, each recording counting alike."""
    keys = ("coverage_pct", "mape_pct", "median_ape_pct", "p99_ape_pct", "bias_pct")
    known = {key: [s[key] for s in stats if s[key] is not None] for key in keys}
    return {f"macro_{key}": statistics.fmean(values) for key, values in known.items() if values}


def measure(paths: list[Path]) -> Body:
    """Replays the recordings for each fit."""
    report = forepass.replay(paths, fits=FITS).to_dict()
    names = {str(path): name_of(path) for path in paths}
    results = []
    for result in report["results"]:
        per_input = [
            {"recording": names[path], **stats} for path, stats in result["by_input"].items()
        ]
        per_input.sort(key=lambda stats: -(stats["mape_pct"] or 0.0))
        groups = {
            group: summary([s for s in per_input if s["recording"].startswith(group)])
            for group in sorted({path.parent.name for path in paths})
        }
        results.append(
            {
                "fit": result["fit"],
                "config": result["config"],
                "micro": result["overall"],
                "macro": summary(per_input),
                "macro_by_group": groups,
                "by_kind": result["by_kind"],
                "by_recording": per_input,
            }
        )
        print(result["fit"], {key: round(value, 2) for key, value in results[-1]["macro"].items()})
    return {"warmup": report["warmup"], "results": results}


ACCURACY = Evidence("accuracy", "make accuracy", recordings, measure)

if __name__ == "__main__":
    ACCURACY.main()
