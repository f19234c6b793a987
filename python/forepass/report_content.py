"""What a report says in words and in tables, as pieces of HTML with everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forepass.replay_result import FitResult, ReplayResult, Stats

ABSENT = "\N{EN DASH}"

KIND_NAMES = {
    "all": "all",
    "pure_decode": "decode",
    "pure_prefill": "prefill",
    "contains_locally_mixed": "mixed",
    "cross_rank_aggregated": "mixed across ranks",
}

REASONS = {
    "cold": "too few observations of this kind of work yet",
    "constant_load": "load has not varied",
    "no_load_signal": "latency does not rise with load",
    "unsolvable": "the statistics admit no solution",
    "overflow": "the forecast is no finite number",
    "idle": "no work was scheduled",
    "no_worker_id": "no worker id beside records that have one",
    "no_positive_time": "no rank tells a time above zero",
    "non_finite_time": "no rank tells a time that is a number",
    "implausible_duration": "a time of more than an hour",
}

_STATS_COLUMNS = (
    "mean error",
    "median",
    "p90",
    "p99",
    "bias",
    "answered",
    "rows",
    "counted",
)
_COLD_ROWS = (5, 10, 64, 1000)

_Cell = tuple[str, float | str | None]
"""What a cell shows, and what it is sorted by."""


def count(value: int) -> str:
    """A whole number in groups of three digits."""
    return f"{value:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def is_baseline(fit: FitResult) -> bool:
    """Whether it knows nothing of load."""
    return "baseline" in fit.config


def _percent(value: float | None, sign: str = "") -> str:
    if value is None:
        return ABSENT
    return f"{value:{sign},.1f}\N{NO-BREAK SPACE}%"


def _badness(stats: Stats) -> float:
    return -1.0 if stats.mape_pct is None else stats.mape_pct


def summary(result: ReplayResult) -> str:
    """What was replayed, and of each model how good it was."""
    lead = "".join(f"<p>{escape(text)}</p>" for text in _lead(result))
    models = [fit for fit in result.results if not is_baseline(fit) and fit.overall.answered]
    baselines = [fit for fit in result.results if is_baseline(fit) and fit.overall.answered]
    models.sort(key=lambda fit: _badness(fit.overall))
    cards = "".join(_card(fit, baselines) for fit in models)
    return (
        f'<section id="summary" aria-label="Summary"><div class="lead">{lead}</div>'
        f'<div class="cards">{cards}</div></section>'
    )


def _lead(result: ReplayResult) -> Iterator[str]:
    timeline = result.timeline or {}
    workers, spikes = timeline["workers_found"], timeline["spikes_found"]
    rows = result.results[0].overall.rows if result.results else 0
    read = sum(source.rows for source in result.inputs)
    text = f"{plural(len(result.inputs), 'trace')}, {plural(read, 'row')}"
    if workers:
        text += f" of {plural(workers, 'worker')}"
    if rows:
        was = "was" if rows == 1 else "were"
        text += f": {count(rows)} with work and a latency {was} forecast, each before the models "
        text += "learned it."
    else:
        text += ", none of them with both work and a latency."
    if read > rows:
        text += f" {plural(read - rows, 'row was', 'rows were')} left out, for reasons told below."
    yield text
    if not any(fit.overall.answered for fit in result.results):
        yield _unscored(result)
    if spikes:
        medians = f"{timeline['spike_medians']:g} times the median"
        yield (
            f"{plural(spikes, 'latency was a spike', 'latencies were spikes')}, more than "
            f"{medians} of the same worker and kind of work: a stall that weighs on a mean error "
            "and hardly on a median."
        )


def _unscored(result: ReplayResult) -> str:
    stats = result.results[0].overall if result.results else None
    if stats is None or stats.rows == 0:
        return "So nothing could be forecast, and there is nothing to draw."
    if stats.eligible == 0:
        return (
            "There is no accuracy to tell yet: a row counts once the model has learned "
            f"{plural(result.warmup, 'row')} of its kind of work, and these traces end before "
            "that. Replay a longer recording, or lower the bar with --warmup. What was forecast "
            "meanwhile is drawn below all the same."
        )
    return "There is no accuracy to tell: no fit answered any of the rows that count."


def _card(fit: FitResult, baselines: Sequence[FitResult]) -> str:
    words = " ".join(_words(fit, baselines))
    return (
        f"<article><h2>{escape(fit.fit)}</h2>"
        f'<p class="figure">{_percent(fit.overall.mape_pct)} <span>mean error</span></p>'
        f"<p>{escape(words)}</p></article>"
    )


def _words(fit: FitResult, baselines: Sequence[FitResult]) -> Iterator[str]:
    stats = fit.overall
    mape = stats.mape_pct or 0.0
    yield (
        f"{_percent(stats.median_ape_pct)} at the median; one row in a hundred was off by more "
        f"than {_percent(stats.p99_ape_pct)}. It answered {_percent(stats.coverage_pct)} of "
        f"{plural(stats.eligible, 'row')} that count."
    )
    bias = stats.bias_pct or 0.0
    if abs(bias) >= 1.0:
        yield f"On the whole it runs {_percent(abs(bias))} {'high' if bias > 0 else 'low'}."
    if len(fit.by_kind) > 1:
        kind, worst = max(fit.by_kind.items(), key=lambda entry: _badness(entry[1]))
        name = KIND_NAMES.get(kind, kind)
        yield f"Its weakest work is {name}, with {_percent(worst.mape_pct)}."
    if baselines:
        best = min(baselines, key=lambda other: _badness(other.overall))
        verdict = "beats" if mape < _badness(best.overall) else "loses to"
        yield (
            f"It {verdict} the better of the forecasts that know no load, {best.fit} with "
            f"{_percent(best.overall.mape_pct)}."
        )


def accuracy(result: ReplayResult) -> str:
    """The tables of errors: by kind of work, by trace and by worker where there are several."""
    by_kind = [
        (fit.fit, kind, stats, fit.cpu_us_per_row if kind == "all" else None)
        for fit in result.results
        for kind, stats in (*fit.by_kind.items(), ("all", fit.overall))
    ]
    by_kind.sort(key=lambda row: _badness(row[2]), reverse=True)
    cells: list[Sequence[_Cell]] = [
        (_text(fit), _kind(kind), *_stats(stats), (f"{spent:.2f}" if spent else "", spent))
        for fit, kind, stats, spent in by_kind
    ]
    header = ("fit", "work", *_STATS_COLUMNS)
    cost = "\N{MICRO SIGN}s a row"
    tables = [_table("By fit and kind of work", (*header, cost), cells, sorted_by=2)]
    by_trace = [
        (fit.fit, path, stats)
        for fit in result.results
        for path, stats in fit.by_input.items()
        if len(result.inputs) > 1
    ]
    by_worker = [
        (fit.fit, f"{path} \N{MIDDLE DOT} {worker or 'no id'}", stats)
        for fit in result.results
        for path, workers in (fit.by_worker or {}).items()
        for worker, stats in workers.items()
    ]
    for name, rows in (("trace", by_trace), ("worker", by_worker)):
        if rows:
            rows.sort(key=lambda row: _badness(row[2]), reverse=True)
            cells = [(_text(fit), _text(of), *_stats(stats)) for fit, of, stats in rows]
            header = ("fit", name, *_STATS_COLUMNS)
            tables.append(_table(f"By fit and {name}", header, cells, sorted_by=2))
    return (
        '<section id="accuracy"><h2>Accuracy</h2>'
        "<p>Worst first. The head of a column sorts by it.</p>" + "".join(tables) + "</section>"
    )


def cold_start(fits: Iterable[Mapping[str, Any]]) -> str:
    """The table of errors over the first rows."""
    rows = [
        (_text(fit["fit"]), _kind(kind), *(_cold_cell(curve, first) for first in _COLD_ROWS))
        for fit in fits
        for kind, curve in fit["cold_start"].items()
    ]
    header = ("fit", "work", *(f"first {count(first)}" for first in _COLD_ROWS))
    return _table("Mean error over the first rows, and how many were answered", header, rows)


def _cold_cell(curve: Sequence[Mapping[str, Any]], first: int) -> _Cell:
    # A curve ends where it takes in all rows.
    entry = next(
        (entry for entry in curve if entry["first"] == first), curve[-1] if curve else None
    )
    if entry is None:
        return ABSENT, None
    answered = f"{count(entry['answered'])} of {count(entry['rows'])}"
    return f"{_percent(entry['mape_pct'])} ({answered})", entry["mape_pct"]


def intervals(results: Iterable[FitResult]) -> Iterator[str]:
    """How well intervals held, of the fits that know any."""
    rows = [
        (
            _text(fit.fit),
            _kind(kind),
            (_percent(100 * float(level)), float(level)),
            (_percent(found.covered_pct), found.covered_pct),
            (_percent(found.mean_width_pct), found.mean_width_pct),
            (count(found.rows), found.rows),
        )
        for fit in results
        for kind, stats in (*fit.by_kind.items(), ("all", fit.overall))
        for level, found in (stats.intervals or {}).items()
    ]
    if rows:
        header = ("fit", "work", "level", "held", "mean width", "rows")
        yield (
            '<section id="intervals"><h2>Intervals</h2><p>Held is the share of latencies within '
            "the interval that was given beforehand, and should be the level. The width is in "
            "percent of the forecast.</p>"
            + _table("By fit, kind of work and level", header, rows)
            + "</section>"
        )


def _text(text: str) -> _Cell:
    return text, text


def _kind(kind: str) -> _Cell:
    return _text(KIND_NAMES.get(kind, kind))


def _stats(stats: Stats) -> tuple[_Cell, ...]:
    errors = (stats.mape_pct, stats.median_ape_pct, stats.p90_ape_pct, stats.p99_ape_pct)
    return (
        *((_percent(value), value) for value in errors),
        (_percent(stats.bias_pct, "+"), stats.bias_pct),
        (_percent(stats.coverage_pct), stats.coverage_pct),
        (count(stats.rows), stats.rows),
        (count(stats.eligible), stats.eligible),
    )


def _table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[_Cell]],
    *,
    sorted_by: int | None = None,
) -> str:
    """A table whose columns sort where they are clicked, in a box that scrolls by itself."""
    heads = "".join(
        f'<th scope="col"{" aria-sort=descending" if index == sorted_by else ""}>'
        f'<button type="button">{escape(name)}</button></th>'
        for index, name in enumerate(header)
    )
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sortable"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _cell(cell: _Cell) -> str:
    shown, key = cell
    return f'<td data-value="{"" if key is None else escape(str(key))}">{escape(shown)}</td>'
