"""Writes the tables of docs/accuracy.md from the evidence."""

from pathlib import Path
from typing import Any

import page_tables
from evidence_file import ROOT
from page_tables import evidence, table

PAGE = ROOT / "docs" / "accuracy.md"
KINDS = ("pure_decode", "pure_prefill", "contains_locally_mixed")
HALVES = ("compared", "held_out", "all")


def pct(value: float | None) -> str:
    """A percentage; a dash where it is not known, and no digits beyond what can be read."""
    if value is None:
        return "-"
    return f"{value:.1f} %" if abs(value) < 1000 else "over 1000 %"


def fits(accuracy: dict[str, Any]) -> str:
    """Each fit and baseline, recordings counting alike (macro) and rows counting alike (micro)."""
    means = ("coverage_pct", "mape_pct", "median_ape_pct", "p99_ape_pct", "bias_pct")
    header = ["fit", "coverage", "MAPE", "median", "p99", "bias",
              "micro: coverage", "MAPE", "median"]  # fmt: skip
    rows = [
        [
            f"`{result['fit']}`",
            *(pct(result["macro"][f"macro_{name}"]) for name in means),
            *(pct(result["micro"][name]) for name in means[:3]),
        ]
        for result in accuracy["results"]
    ]
    return table(header, rows)


def kinds(accuracy: dict[str, Any]) -> str:
    """Each kind of work for each fit, rows counting alike."""
    header = ["kind", "fit", "eligible", "coverage", "MAPE", "median", "p99"]
    names = ("coverage_pct", "mape_pct", "median_ape_pct", "p99_ape_pct")
    rows = [
        [
            f"`{kind}`",
            f"`{result['fit']}`",
            f"{result['by_kind'][kind]['eligible']:,}",
            *(pct(result["by_kind"][kind][name]) for name in names),
        ]
        for kind in KINDS
        for result in accuracy["results"]
    ]
    return table(header, rows)


def recordings(accuracy: dict[str, Any]) -> str:
    """Each recording, worst first for `auto`: MAPE and median of each fit and baseline."""
    results = {
        result["fit"]: {stats["recording"]: stats for stats in result["by_recording"]}
        for result in accuracy["results"]
    }

    def pair(stats: dict[str, Any]) -> str:
        return f"{pct(stats['mape_pct'])}, {pct(stats['median_ape_pct'])}"

    header = ["recording", "eligible", *(f"`{fit}`" for fit in results)]
    rows = [
        [
            name.removesuffix(".gz"),
            f"{stats['eligible']:,}",
            *(pair(result[name]) for result in results.values()),
        ]
        for name, stats in results["auto"].items()
    ]
    return table(header, rows)


def intervals(accuracy: dict[str, Any]) -> str:
    """The intervals of `auto` at each level, rows counting alike."""
    (auto,) = (result for result in accuracy["results"] if result["fit"] == "auto")
    rows = [
        [
            level,
            f"{stats['rows']:,}",
            pct(stats["covered_pct"]),
            pct(stats["mean_width_pct"]),
        ]
        for level, stats in auto["micro"]["intervals"].items()
    ]
    return table(["level", "rows", "held", "mean width"], rows)


def choices(document: dict[str, Any]) -> str:
    """Each variant of the adaptive fit and of its parts, on both halves: MAPE."""
    rows = [
        [variant["variant"], *(pct(variant[half]["macro_mape_pct"]) for half in HALVES)]
        for variant in document["variants"]
    ]
    return table(["variant", "compared half", "held-out half", "all"], rows)


def holdout(document: dict[str, Any]) -> str:
    """Each fit where it has learned, at the edge of that and beyond it."""
    header = ["fit", "held out", "where", "recordings", "coverage", "median", "worst median"]
    rows = [
        [
            f"`{result['fit']}`" if " " not in result["fit"] else result["fit"],
            result["region"],
            zone,
            str(stats["recordings"]),
            pct(stats["macro_coverage_pct"]),
            pct(stats["macro_median_ape_pct"]),
            pct(stats["worst_median_ape_pct"]),
        ]
        for result in document["results"]
        for zone, stats in result["summary"].items()
    ]
    return table(header, rows)


def halves(document: dict[str, Any]) -> str:
    """Which recordings were compared for choosing defaults, and which were held out."""

    def names(half: str) -> str:
        return ", ".join(f"`{Path(name).name.partition('.csv')[0]}`" for name in half_of[half])

    half_of = document["halves"]
    return table(["half", "recordings"], [[half, names(half)] for half in HALVES[:2]])


def filled_in(text: str) -> str:
    """The page with its tables as the evidence has them."""
    accuracy, chosen = evidence("accuracy"), evidence("choices")
    tables = {
        "fits": fits(accuracy),
        "kinds": kinds(accuracy),
        "recordings": recordings(accuracy),
        "recorded": recordings(evidence("recorded")),
        "intervals": intervals(accuracy),
        "halves": halves(chosen),
        "choices": choices(chosen),
        "holdout": holdout(evidence("holdout")),
    }
    return page_tables.filled_in(text, tables)


def main() -> None:
    """Write the tables."""
    page_tables.write(PAGE, filled_in(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
