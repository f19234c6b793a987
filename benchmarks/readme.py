"""Writes the README's tables from the evidence; `--check` says whether they are current."""

import sys

import page_tables
from evidence_file import ROOT
from page_tables import evidence, table

README = ROOT / "README.md"


def accuracy() -> str:
    """Each fit and baseline, over all recordings and by group."""

    def pair(macro: dict[str, float]) -> str:
        return f"{macro['macro_mape_pct']:.1f} %, {macro['macro_median_ape_pct']:.1f} %"

    header = ["fit", "coverage", "MAPE", "median APE", "production GPUs: MAPE, median",
              "CPU: MAPE, median"]  # fmt: skip
    rows = [
        [
            f"`{result['fit']}`",
            f"{result['macro']['macro_coverage_pct']:.1f} %",
            f"{result['macro']['macro_mape_pct']:.1f} %",
            f"{result['macro']['macro_median_ape_pct']:.1f} %",
            pair(result["macro_by_group"]["b300"]),
            pair(result["macro_by_group"]["cpu"]),
        ]
        for result in evidence("accuracy")["results"]
    ]
    return table(header, rows)


def holdout() -> str:
    """Each fit where it has learned, at the edge of that and beyond, by what was held out."""
    fits = ("auto", "linear", "spline", "spline-periodic")
    regions = {"batch": "the largest batches", "context": "the longest contexts"}
    summaries = {
        (result["fit"], result["region"]): result["summary"]
        for result in evidence("holdout")["results"]
    }
    zones = ("inside", "edge", "beyond")
    rows = [
        [
            f"`{fit}`",
            regions[region],
            *(f"{summaries[fit, region][zone]['macro_median_ape_pct']:.1f} %" for zone in zones),
        ]
        for region in regions
        for fit in fits
    ]
    header = ["fit", "not learned", "inside", "up to a third beyond", "farther"]
    return table(header, rows)


def speed() -> str:
    """What was measured against what."""
    results = evidence("speed")["results"]
    updates = results["recursive_update_against_batch_refit"]["results"]
    python = results["python_predict_and_observe_against_peer"]
    batch = results["predict_batch_row_against_peer_call"]
    replay = results["replay_against_python_loop"]
    launch = results["launch_against_parsing_its_json"]["results"][0]
    fits = evidence("fit_speed")["results"]
    reading = max(evidence("reading")["results"], key=lambda result: int(result["lines"]))
    few, many = (update["batch_over_recursive"] for update in updates)
    kept = " and ".join(f"{update['retained']:,}" for update in updates)
    adaptive, periodic, auto = (
        fits[f"median_{fit}_over_linear"] for fit in ("spline", "spline_periodic", "auto")
    )
    ratios = {
        f"recursive update against a batch refit in the same arithmetic, {kept} rows kept": (
            f"{few:.1f}x, {many:.0f}x"
        ),
        f"`predict` and `observe` of one dict against {' '.join(python['peer'].split()[:2])}": (
            f"{python['median_ratio']:.0f}x faster ({python['fast_us']:.1f} us for both)"
        ),
        "a row of `predict_batch` against that peer's call": f"{batch['ratio']:.0f}x faster",
        "a gzipped JSON-lines replay against the same in a Python loop over this model": (
            f"{replay['median_ratio']:.1f}x faster"
        ),
        f"`forepass replay` of {reading['lines']:,} gzipped lines against msgspec in Python only "
        "decoding them": (
            f"{reading['median_ratio']:.1f}x the speed "
            f"({reading['replay']['rows_per_s'] / 1000:.0f} thousand rows a second, "
            f"{reading['replay']['peak_mib']:.0f} MiB)"
        ),
        "a row of the spline, searched adaptively and periodically, against the line": (
            f"{adaptive:.1f}x, {periodic:.1f}x the time (median over recordings)"
        ),
        "a row of `auto` against the line": f"{auto:.1f}x the time (median over recordings)",
        "a knot search against refitting every candidate": (
            f"{fits['search']['ratio']:.0f}x faster"
        ),
        "a launch from its JSON text to its resolved form, against parsing the text": (
            f"{launch['resolve_over_parse']:.1f}x the time ({launch['resolve_us']:.0f} us)"
        ),
    }
    rows = [[what, ratio] for what, ratio in ratios.items()]
    return table(["what", "ratio"], rows)


def filled_in(text: str) -> str:
    """The README with its tables as the evidence has them."""
    return page_tables.filled_in(
        text, {"accuracy": accuracy(), "holdout": holdout(), "speed": speed()}
    )


def main() -> None:
    """Write the tables, or with --check only compare them."""
    text = README.read_text(encoding="utf-8")
    current = filled_in(text)
    if "--check" in sys.argv[1:]:
        sys.exit(0 if text == current else "README.md is not what the evidence says: make readme")
    page_tables.write(README, current)


if __name__ == "__main__":
    main()
