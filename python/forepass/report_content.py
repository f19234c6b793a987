"""What a report says in words and in tables, as pieces of HTML with everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath
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
_FULL_COVERAGE_PCT = 95.0  # below, a mean error is of rows too different from those of others

_Cell = tuple[str, float | str | None]
"""What a cell shows, and what it is sorted by; the latter is its title where both are texts."""


def count(value: int) -> str:
    """A whole number in groups of three digits."""
    return f"{value:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Each path by as few of its last parts as tell it from the others."""
    parts = {path: PurePath(path).parts or (path,) for path in paths}
    names = {}
    for path, own in parts.items():
        others = [other for each, other in parts.items() if each != path]
        length = 1
        while length < len(own) and any(own[-length:] == other[-length:] for other in others):
            length += 1
        names[path] = str(PurePath(*own[-length:])) if length < len(own) else path
    return names


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
        text += f": {count(rows)} with work and a latency {was} put to the models, each before "
        text += "they learned it."
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
            "that. Replay a longer recording, or lower the bar with --warmup. Whatever was "
            "forecast meanwhile is drawn below all the same."
        )
    return "There is no accuracy to tell: no fit answered any of the rows that count."


def _card(fit: FitResult, baselines: Sequence[FitResult]) -> str:
    words = " ".join(_words(fit, baselines))
    error = f"mean error {_answered_share(fit.overall)}".rstrip()
    return (
        f"<article><h2>{escape(fit.fit)}</h2>"
        f'<p class="figure">{_percent(fit.overall.mape_pct)} <span>{error}</span></p>'
        f"<p>{escape(words)}</p></article>"
    )


def _answered_share(stats: Stats) -> str:
    """Over which share of the rows an error is, where that is not all."""
    coverage = stats.coverage_pct or 0.0
    return "" if coverage >= 99.95 else f"over the {_percent(coverage)} it answered"


def _words(fit: FitResult, baselines: Sequence[FitResult]) -> Iterator[str]:
    stats = fit.overall
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
        yield _verdict(stats, baselines)


def _verdict(stats: Stats, baselines: Sequence[FitResult]) -> str:
    """How a model does beside the best baseline, where both answered about the same rows."""
    best = min(baselines, key=lambda other: _badness(other.overall))
    other = best.overall
    error = f"{_percent(other.mape_pct)} {_answered_share(other)}".rstrip()
    if any((each.coverage_pct or 0.0) < _FULL_COVERAGE_PCT for each in (stats, other)):
        return (
            f"That is not set against {best.fit}, which knows no load and has {error}: these are "
            "other rows."
        )
    mine, theirs = _badness(stats), _badness(other)
    verdict = "beats" if mine < theirs else "loses to" if mine > theirs else "equals"
    over = _answered_share(stats)
    if over:
        verdict += f" ({over})"
    among = "the forecast that knows no load"
    if len(baselines) > 1:
        among = "the better of the forecasts that know no load"
    return f"It {verdict} {among}, {best.fit} with {error}."


def accuracy(result: ReplayResult) -> str:
    """The tables of errors: by kind of work, by trace and by worker where there are several."""
    cells: list[Sequence[_Cell]] = [
        (_text(fit.fit), _kind(kind), *_stats(stats), _cost(fit if kind == "all" else None))
        for fit in result.results
        for kind, stats in (*fit.by_kind.items(), ("all", fit.overall))
    ]
    header = ("fit", "work", *_STATS_COLUMNS)
    cost = "\N{MICRO SIGN}s a row"
    tables = [_table("By fit and kind of work", (*header, cost), cells, worst_in=2)]
    names = short_names(source.path for source in result.inputs)
    by_trace = [
        (fit.fit, path, "", stats)
        for fit in result.results
        for path, stats in fit.by_input.items()
        if len(result.inputs) > 1
    ]
    by_worker = [
        (fit.fit, path, worker or "no id", stats)
        for fit in result.results
        for path, workers in (fit.by_worker or {}).items()
        for worker, stats in workers.items()
    ]
    for name, rows in (("trace", by_trace), ("worker", by_worker)):
        if rows:
            cells = [
                (_text(fit), _source(names[path], path, worker), *_stats(stats))
                for fit, path, worker, stats in rows
            ]
            header = ("fit", name, *_STATS_COLUMNS)
            tables.append(_table(f"By fit and {name}", header, cells, worst_in=2))
    return (
        '<section id="accuracy"><h2>Accuracy</h2>'
        '<p>Worst first.<span class="scripted"> The head of a column sorts by it.</span></p>'
        + "".join(tables)
        + "</section>"
    )


def cold_start(fits: Iterable[Mapping[str, Any]]) -> str:
    """The table of errors over the first rows."""
    rows: list[Sequence[_Cell]] = [
        (_text(fit["fit"]), _kind(kind), *(_cold_cell(curve, first) for first in _COLD_ROWS))
        for fit in fits
        for kind, curve in fit["cold_start"].items()
    ]
    header = ("fit", "work", *(f"first {count(first)}" for first in _COLD_ROWS))
    caption = "Mean error over the first rows, and how many were answered"
    return _table(caption, header, rows, worst_in=2 + _COLD_ROWS.index(64))


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
    rows: list[Sequence[_Cell]] = [
        (
            _text(fit.fit),
            _kind(kind),
            (_percent(100 * float(level)), float(level)),
            (_percent(found.covered_pct), found.covered_pct),
            _missing(float(level), found.covered_pct),
            (_percent(found.mean_width_pct), found.mean_width_pct),
            (count(found.rows), found.rows),
        )
        for fit in results
        for kind, stats in (*fit.by_kind.items(), ("all", fit.overall))
        for level, found in (stats.intervals or {}).items()
    ]
    if rows:
        header = ("fit", "work", "level", "held", "too few", "mean width", "rows")
        yield (
            '<section id="intervals"><h2>Intervals</h2><p>Held is the share of latencies within '
            "the interval that was given beforehand, and should be the level: too few are the "
            "points that are missing, below zero where it held more. The width is in percent of "
            "the forecast.</p>"
            + _table("By fit, kind of work and level", header, rows, worst_in=4)
            + "</section>"
        )


def _missing(level: float, held_pct: float | None) -> _Cell:
    if held_pct is None:
        return ABSENT, None
    missing = 100 * level - held_pct
    return f"{missing:+.1f}", missing


def _text(text: str) -> _Cell:
    return text, text


def _source(name: str, path: str, worker: str) -> _Cell:
    """A trace, or a worker of it, by its short name."""
    suffix = f" \N{MIDDLE DOT} {worker}" if worker else ""
    return name + suffix, path + suffix


def _cost(fit: FitResult | None) -> _Cell:
    spent = None if fit is None else fit.cpu_us_per_row
    return (f"{spent:.2f}" if spent else ""), spent


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
    worst_in: int,
) -> str:
    """A table, worst first by a column of numbers, in a box that scrolls by itself.

    Columns sort where they are clicked.
    """

    def badness(row: Sequence[_Cell]) -> float:
        key = row[worst_in][1]
        return float("-inf") if key is None else float(key)

    worst_first = sorted(rows, key=badness, reverse=True)
    heads = "".join(
        f'<th scope="col"{" aria-sort=descending" if index == worst_in else ""}>'
        f'<button type="button">{escape(name)}</button></th>'
        for index, name in enumerate(header)
    )
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in worst_first)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sortable"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _cell(cell: _Cell) -> str:
    shown, key = cell
    value = "" if key is None else escape(str(key))
    title = f' title="{value}"' if isinstance(key, str) and key != shown else ""
    return f'<td data-value="{value}"{title}>{escape(shown)}</td>'
