"""Results of replays and inspections as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from forepass.replay_result import FitResult, ReplayInput, ReplayResult, Stats

_ABSENT = "-"
_STATS_HEADER = (
    "rows",
    "eligible",
    "coverage",
    "MAPE",
    "median",
    "p90",
    "p99",
    "bias",
)
_SHOWN_LEVEL = "0.9"
_SPREAD = ("min", "p10", "median", "p90", "p99", "max")

Row = Sequence[str]
_Key = TypeVar("_Key")


def replay_tables(result: ReplayResult) -> str:
    """How each fit did by kind of work, by input where there are several, and by worker."""
    blocks = [_by_kind(result), *_intervals(result)]
    if len(result.inputs) > 1:
        blocks += [_by_input(fit) for fit in result.results]
    blocks += [_by_worker(fit) for fit in result.results if fit.by_worker is not None]
    if any(fit.gym is not None for fit in result.results):
        blocks.append(_gym(result.results))
    return "\n\n".join(blocks)


def reading_line(source: ReplayInput, scored: int) -> str:
    """What was read of a trace and what was left out."""
    line = (
        f"{source.path}: {source.rows} rows ({source.format or 'unknown format'}), {scored} scored"
    )
    return line + _reasons(", skipped", source.skipped)


def inspection_text(document: Mapping[str, Any]) -> str:
    """What is in each trace of a `forepass.inspect.v1` document."""
    return "\n\n".join(_inspected(source) for source in document["inputs"])


def _by_kind(result: ReplayResult) -> str:
    rows = []
    for fit in result.results:
        rows += [(fit.fit, kind, *_stats(stats), "") for kind, stats in fit.by_kind.items()]
        per_row = fit.cpu_us_per_row
        spent = _ABSENT if per_row is None else f"{per_row:.2f}"
        rows.append((fit.fit, "all", *_stats(fit.overall), spent))
    return table(("fit", "kind", *_STATS_HEADER, "us/row"), rows, text_columns=2)


def _intervals(result: ReplayResult) -> Iterator[str]:
    """How well intervals held, of the fits that know any."""
    rows = [
        (fit.fit, kind, str(found.rows), _pct(found.covered_pct), _pct(found.mean_width_pct))
        for fit in result.results
        for kind, stats in (*fit.by_kind.items(), ("all", fit.overall))
        if stats.intervals is not None and (found := stats.intervals[_SHOWN_LEVEL])
    ]
    if rows:
        header = (f"{float(_SHOWN_LEVEL):.0%} intervals", "kind", "rows", "held", "mean width")
        yield table(header, rows, text_columns=2)


def _by_input(fit: FitResult) -> str:
    rows = [(path, *_stats(stats)) for path, stats in _worst_first(fit.by_input)]
    return table((f"{fit.fit}, by input", *_STATS_HEADER), rows, text_columns=1)


def _by_worker(fit: FitResult) -> str:
    workers = {
        (path, worker): stats
        for path, by_worker in (fit.by_worker or {}).items()
        for worker, stats in by_worker.items()
    }
    rows = [
        (path, worker or "(no id)", *_stats(stats))
        for (path, worker), stats in _worst_first(workers)
    ]
    return table((f"{fit.fit}, by worker", "worker", *_STATS_HEADER), rows, text_columns=2)


def _gym(fits: Sequence[FitResult]) -> str:
    rows = [
        (
            fit.fit,
            str(fit.gym["cases"]),
            _pct(fit.gym["macro_coverage_pct"]),
            _pct(fit.gym["macro_full_mape_pct"]),
            _pct(fit.gym["macro_suffix_mape_pct"]),
        )
        for fit in fits
        if fit.gym is not None
    ]
    header = ("gym protocol", "cases", "macro coverage", "macro MAPE", "of the last 30 %")
    return table(header, rows, text_columns=1)


def _worst_first(stats: Mapping[_Key, Stats]) -> list[tuple[_Key, Stats]]:
    def badness(entry: tuple[_Key, Stats]) -> float:
        mape_pct = entry[1].mape_pct
        return -1.0 if mape_pct is None else mape_pct

    return sorted(stats.items(), key=badness, reverse=True)


def _stats(stats: Stats) -> Row:
    return (
        str(stats.rows),
        str(stats.eligible),
        _pct(stats.coverage_pct),
        _pct(stats.mape_pct),
        _pct(stats.median_ape_pct),
        _pct(stats.p90_ape_pct),
        _pct(stats.p99_ape_pct),
        _pct(stats.bias_pct, sign="+"),
    )


def _pct(value: float | None, sign: str = "") -> str:
    return _ABSENT if value is None else f"{value:{sign}.1f}%"


def _inspected(source: Mapping[str, Any]) -> str:
    head = f"{source['path']}: {source['rows']} rows ({source['format'] or 'unknown format'})"
    head += f", {source['iterations']} iterations, {source['idle']} idle"
    head += _reasons(", rejected", source["rejected"]) + _reasons(", skipped", source["skipped"])
    kinds = [
        (
            kind if name == "latency_ms" else "",
            str(found["rows"]) if name == "latency_ms" else "",
            ("yes" if found["learnable"] else "no") if name == "latency_ms" else "",
            name.replace("_", " "),
            *(f"{found[name][quantile]:.6g}" for quantile in _SPREAD),
        )
        for kind, found in source["kinds"].items()
        for name in ("latency_ms", "attention", "ffn")
    ]
    workers = [
        (
            worker or "(no id)",
            str(found["iterations"]),
            str(found["idle"]),
            str(len(found["records_by_rank"])),
            str(found["counter_gaps"]),
            str(found["counter_restarts"]),
            ", ".join(found["producers"]) or _ABSENT,
            ", ".join(found["timing_scopes"]),
        )
        for worker, found in source["workers"].items()
    ]
    worker_header = (
        "worker",
        "iterations",
        "idle",
        "ranks",
        "counter gaps",
        "restarts",
        "producers",
        "timing scopes",
    )
    blocks = [
        table(("kind", "rows", "learnable", "of", *_SPREAD), kinds, text_columns=1),
        *_remarks(source["kinds"]),
        table(worker_header, workers, text_columns=1),
    ]
    if "knots" in source:
        blocks.append(_knots_table(source["knots"]))
    return "\n\n".join([head + _span(source["span"]), *blocks])


def _span(span: Mapping[str, Any] | None) -> str:
    if span is None:
        return ""
    late = f", {span['out_of_order']} out of order" if span["out_of_order"] else ""
    return f"\nrecorded over {(span['last_ms'] - span['first_ms']) / 1000:.3f} s{late}"


def _remarks(kinds: Mapping[str, Any]) -> list[str]:
    """What to know of each kind of work, one line each; no block where there is nothing."""
    lines = []
    for kind, found in kinds.items():
        if found["spikes"]:
            lines.append(
                f"{kind}: {found['spikes']} latencies of more than ten medians, the greatest at "
                f"{found['slowest']}"
            )
        lines += [f"{kind}: a model cannot learn {what}" for what in found["not_learnable"]]
    return ["\n".join(lines)] if lines else []


def _knots_table(knots: Mapping[str, Any]) -> str:
    rows = [
        (
            worker or "(no id)",
            kind,
            *(_knots(spline[axis]) for axis in ("attention", "ffn")),
            str(spline["accepted_observations"]),
            str(spline["knot_searches"]),
            "yes" if spline["ready"] else "no",
        )
        for worker, kinds in knots.items()
        for kind, spline in kinds.items()
    ]
    header = ("worker", "kind", "attention knots", "ffn knots", "learned", "searches", "ready")
    return table(header, rows, text_columns=4)


def _knots(values: Sequence[float] | None) -> str:
    return _ABSENT if not values else ", ".join(f"{value:.6g}" for value in values)


def _reasons(what: str, counts: Mapping[str, int]) -> str:
    if not counts:
        return ""
    return f"{what} " + ", ".join(f"{count} {reason}" for reason, count in counts.items())


def table(header: Row, rows: Sequence[Row], *, text_columns: int) -> str:
    """Columns under a ruled header, the first ones flush left and numbers flush right."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: Row) -> str:
        padded = (
            cell.ljust(width) if index < text_columns else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *map(line, rows)])
