"""Figures of a replay for papers, as SVG with matplotlib, the same bytes for the same replay."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, NullLocator

from forepass.report_content import KIND_NAMES, is_baseline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forepass.replay_result import ReplayResult

# Told apart without colour by dash and shape; the colours are those of Okabe and Ito.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444")
_DASHES = ("-", "--", ":", "-.", (0, (7, 2)), (0, (5, 1, 1, 1, 1, 1)))
_SHAPES = ("o", "s", "D", "^", "P", "X", "*", "h")
_STYLE: Any = {
    "svg.hashsalt": "forepass",
    "svg.fonttype": "path",
    "font.size": 8,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "text.parse_math": False,
}
_WIDTH_IN = 5.5  # the text width of most papers
_LEAST_ERROR_PCT = 0.01  # what is less is as good
_COLD_TICKS = (1, 2, 5, 10, 20, 64, 200, 1000)
_LOADS = ("attention load: KV tokens and query-key pairs", "FFN load: tokens")


def svg_figures(result: ReplayResult, most_workers: int) -> Iterator[bytes]:
    """The distribution and the cold start, then the course and the load of each worker.

    Of more workers than asked for, those with the most rows.
    """
    timeline: Mapping[str, Any] = result.timeline or {}
    last = max(
        (index for index, fit in enumerate(result.results) if not is_baseline(fit)), default=0
    )
    names = [fit.fit for fit in result.results]
    with mpl.rc_context(_STYLE):
        yield _svg(_distribution(timeline))
        yield _svg(_cold_start(timeline["fits"]))
        for worker in _longest(timeline["workers"], most_workers):
            yield _svg(_course(worker, last, names[last]))
            yield _svg(_load(worker, last, names[last]))


def _longest(workers: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """The workers with the most rows, in their order; the first of those with as many."""
    by_rows = sorted(range(len(workers)), key=lambda index: -workers[index]["rows"])
    return [workers[index] for index in sorted(by_rows[:most])]


def _svg(figure: Figure) -> bytes:
    target = io.BytesIO()
    figure.savefig(target, format="svg", metadata={"Date": None, "Creator": "forepass"})
    return target.getvalue()


def _line(index: int) -> dict[str, Any]:
    return {
        "color": _COLORS[index % len(_COLORS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.3,
    }


def _finish(figure: Figure, axes: Axes) -> Figure:
    """Puts the legend below, or says that there is nothing to explain."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=5, markerscale=2)
    else:
        axes.text(0.5, 0.5, "nothing to draw", ha="center", transform=axes.transAxes)
    return figure


def _distribution(timeline: Mapping[str, Any]) -> Figure:
    figure = Figure(figsize=(_WIDTH_IN, 3))
    axes = figure.subplots()
    axes.set(xlabel="error at most, %", ylabel="share of answered rows, %", ylim=(0, 101))
    for index, fit in enumerate(timeline["fits"]):
        sizes = fit["distribution_pct"]["all"] or []
        points = [
            (max(size, _LEAST_ERROR_PCT), share)
            for size, share in zip(sizes, timeline["shares_pct"], strict=False)
            if size is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), label=fit["fit"], **_line(index))
            axes.set_xscale("log")
            axes.set_xlim(left=_LEAST_ERROR_PCT)
            axes.xaxis.set_major_formatter("{x:,.10g}")
    return _finish(figure, axes)


def _cold_start(fits: Sequence[Mapping[str, Any]]) -> Figure:
    figure = Figure(figsize=(_WIDTH_IN, 3))
    axes = figure.subplots()
    axes.set(xlabel="first rows", ylabel="mean error, %")
    for index, fit in enumerate(fits):
        curve = [entry for entry in fit["cold_start"]["all"] if entry["mape_pct"] is not None]
        if curve:
            axes.plot(
                [entry["first"] for entry in curve],
                [entry["mape_pct"] for entry in curve],
                label=fit["fit"],
                marker=_SHAPES[index % len(_SHAPES)],
                markersize=3.5,
                **_line(index),
            )
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(_COLD_TICKS))
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=0)
    return _finish(figure, axes)


def _title(worker: Mapping[str, Any], name: str) -> str:
    named = [PurePath(worker["input"]).name, worker["worker_id"], worker["timing_scope"], name]
    text = ", ".join(part for part in named if part)
    # What a font cannot show, such as the half of a pair, must not stop a figure.
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return shown if len(shown) <= 80 else f"\N{HORIZONTAL ELLIPSIS}{shown[-79:]}"


def _course(worker: Mapping[str, Any], index: int, name: str) -> Figure:
    """Observed and predicted, with what was unusual, above what was done to the fit."""
    fit, points = worker["fits"][index], worker["points"]
    rows, observed = points["row"], points["observed_ms"]
    events = list(fit["events"].items())
    figure = Figure(figsize=(_WIDTH_IN, 3.2 + 0.2 * len(events)))
    figure.suptitle(_title(worker, name), fontsize=8)
    heights = (12, max(len(events), 0.01))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    answered = [place for place, ms in enumerate(fit["predicted_ms"]) if ms is not None]
    abstained = [place for places in fit["abstentions"].values() for place in places]
    layers = (
        ("observed", range(len(rows)), observed, {"marker": "o", "color": "#777777", "ms": 1.3}),
        ("predicted", answered, fit["predicted_ms"], {"marker": "_", "color": "#0072b2", "ms": 3}),
        ("spike", worker["spikes"], observed, {"marker": "^", "color": "#d55e00", "ms": 4.5}),
        (
            "worst error",
            fit["worst"][: max(3, len(rows) // 20)],
            observed,
            {"marker": "D", "color": "#cc79a7", "ms": 3.5},
        ),
        ("no forecast", abstained, observed, {"marker": "x", "color": "#000000", "ms": 4}),
    )
    for label, places, values, style in layers:
        if places:
            x, y = [rows[place] for place in places], [values[place] for place in places]
            above.plot(x, y, linestyle="", fillstyle="none", mew=0.8, label=label, **style)
    above.set(ylabel="latency, ms", yscale="log")
    above.yaxis.set_major_formatter("{x:g}")
    for lane, (_, event) in enumerate(events):
        lanes = [lane] * len(event["rows"])
        below.plot(event["rows"], lanes, linestyle="", marker="|", color="#009e73", ms=5)
    below.set_yticks(range(len(events)), [sort.replace("_", " ") for sort, _ in events])
    below.set_ylim(-0.6, max(len(events) - 0.4, 0.6))
    below.set_xlabel("row of the trace")
    return _finish(figure, above)


def _load(worker: Mapping[str, Any], index: int, name: str) -> Figure:
    """Error along each feature, with its median and the knots."""
    figure = Figure(figsize=(_WIDTH_IN, 3))
    figure.suptitle(_title(worker, name), fontsize=8)
    fit, points = worker["fits"][index], worker["points"]
    warming = set(worker["warming_up"])
    columns = [points["attention"], points["ffn"]]
    if "features" in fit:
        columns = [list(column) for column in zip(*fit["features"], strict=True)]
    both = figure.subplots(1, 2, sharey=True)
    for axes, column, label in zip(both, range(2), _LOADS, strict=True):
        axes.set(xlabel=label, ylim=(-105, _most(fit)))
        axes.axhline(0, color="#444444", linewidth=0.6)
        for place, kind in enumerate(worker["kinds"]):
            drawn = [
                row
                for row, error in enumerate(fit["error_pct"])
                if points["kind"][row] == place and error is not None and row not in warming
            ]
            if not drawn:
                continue
            line = _line(place)
            x, y = [columns[column][row] for row in drawn], [fit["error_pct"][row] for row in drawn]
            style = {"marker": _SHAPES[place], "color": line["color"], "ms": 1.5, "alpha": 0.4}
            axes.plot(x, y, linestyle="", label=KIND_NAMES.get(kind, kind), **style)
            bins = fit["load"].get(kind, [[], []])[column]
            x = [edge for each in bins for edge in (each["from"], each["to"])]
            y = [each["median_pct"] for each in bins for _ in range(2)]
            axes.plot(x, y, **line | {"color": "#ffffff", "linestyle": "-", "linewidth": 3.5})
            axes.plot(x, y, **line | {"linewidth": 1.8})
            for knot in fit["knots"].get(kind, [[], []])[column]:
                style = {"linestyle": _DASHES[(place + 1) % len(_DASHES)], "linewidth": 0.9}
                axes.axvline(knot, color=line["color"], **style)
        if min(columns[column]) > 0:
            axes.set_xscale("log")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    both[0].set_ylabel("error, %")
    return _finish(figure, both[0])


def _most(fit: Mapping[str, Any]) -> float:
    """The upper end of the axis, which stalls are to be beyond."""
    bins = (each for axes in fit["load"].values() for axis in axes for each in axis)
    return max([60.0, *(float(each["p90_ape_pct"]) for each in bins)])
