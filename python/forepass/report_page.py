"""The report page: everything in one HTML file, escaped, and locked against any other script."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from forepass.report_content import (
    KIND_NAMES,
    REASONS,
    accuracy,
    cold_start,
    count,
    intervals,
    is_baseline,
    plural,
    short_names,
    summary,
)

if TYPE_CHECKING:
    from forepass.replay_result import ReplayInput, ReplayResult

_DIGITS = 5  # more cannot be seen in a figure


def html_page(result: ReplayResult, plotly: str) -> str:
    """The page of a result with a timeline; `plotly` is the text of plotly.js."""
    script = _data_file("report.js") + _data_file("report_figures.js")
    style = _data_file("report.css")
    # Scripts are known by their digests: none that a trace might smuggle in would run, and nothing
    # can be loaded.
    policy = (
        f"default-src 'none'; script-src {_digest(script)} {_digest(plotly)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    title = f"Forepass report: {', '.join(source.path for source in result.inputs)}"
    packed = base64.b64encode(gzip.compress(plotly.encode(), 9, mtime=0)).decode("ascii")
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="forepass {escape(result.forepass_version)}">
<title>{escape(_short(title, 120))}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
<noscript><style>
figure, #load, #errors, .scripted, th button::after {{ display: none !important; }}
</style></noscript>
</head>
<body>
{"".join(_body(result))}
<script type="application/json" id="report-data">{_script_json(_figure_data(result))}</script>
<script type="text/plain" id="plotly-packed">{packed}</script>
<script type="module">{script}</script>
</body>
</html>
"""
    # Names of files may be any bytes, which stand in a text as halves of pairs.
    return page.encode("utf-8", "replace").decode("utf-8")


def _data_file(name: str) -> str:
    return (files("forepass") / "data" / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _script_json(document: Any) -> str:
    """JSON that cannot end the element that it stands in."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _figure_data(result: ReplayResult) -> dict[str, Any]:
    """What the figures draw, rounded to what can be seen."""
    p99_pct = {
        fit.fit: {
            kind: stats.p99_ape_pct for kind, stats in (*fit.by_kind.items(), ("all", fit.overall))
        }
        for fit in result.results
    }
    timeline = result.timeline or {}
    drawn: dict[str, Any] = _rounded({**timeline, "p99_pct": p99_pct})
    return drawn | {
        "names": short_names(source.path for source in result.inputs),
        "thinning": [_thinning(worker) for worker in timeline["workers"]],
        "kinds": KIND_NAMES,
        "reasons": REASONS,
        "baselines": [fit.fit for fit in result.results if is_baseline(fit)],
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(of) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(of) for of in value]
    return value


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _body(result: ReplayResult) -> Iterator[str]:
    named = ", ".join(source.path for source in result.inputs)
    held = "".join(intervals(result.results))
    to_intervals = '<a href="#intervals">Intervals</a> ' if held else ""
    yield f"""<header>
<p class="brand">Forepass <span>{escape(result.forepass_version)}</span></p>
<h1>How well each pass was forecast</h1>
<p class="traces">{escape(_short(named, 300))}</p>
<nav aria-label="Sections"><a href="#accuracy">Accuracy</a> <a href="#course">Over the trace</a>
<a href="#load">Over load</a> <a href="#errors">Distribution</a> <a href="#cold">Cold start</a>
{to_intervals}<a href="#inputs">Inputs</a> <a href="#setup">Configuration</a></nav>
</header>
<main>"""
    timeline = result.timeline or {}
    yield summary(result)
    yield accuracy(result)
    yield _FIGURES.format(
        few=escape(_few(timeline)),
        medians=f"{timeline['spike_medians']:g}",
        cold_table=cold_start(timeline["fits"]),
    )
    yield held
    yield _inputs(result)
    yield _setup(result)
    yield """</main>
<footer>A row counts once as many rows of its kind of work have been learned as the warm-up asks
for. Errors are in percent of the observed latency; the mean error is that of their sizes (MAPE),
and bias is their signed mean, positive where forecasts are too high. This page is complete: it
loads nothing.</footer>"""


_FIGURES = """<section id="course"><h2>Observed and predicted over the trace</h2>
<noscript><p>The figures need scripts, which are switched off here. The tables are complete
without them.</p></noscript>
<form id="controls" hidden aria-label="What the figures show">
<label>Worker <select id="worker"></select></label>
<label>Kind of work <select id="kind"></select></label>
<label>Fit <select id="fit"></select></label>
<label class="check"><input type="checkbox" id="log" checked> logarithmic latency</label>
</form>
<p class="note">{few}<span id="told-thinning"></span></p>
<figure><div class="plot tall" id="plot-course" role="img" aria-label="Observed and predicted \
latency of each row, with spikes, worst errors, abstentions and events"></div>
<figcaption>Hollow dots are rows of the warm-up. A spike is a latency of more than {medians} \
medians of its worker and kind of work; the worst errors are those of at most one row \
in twenty after the warm-up. \
<span id="told-course"></span> <span class="by-mouse">Drag to zoom and double-click to come back, \
or use the buttons.</span><span class="by-touch">Zoom with the buttons.</span></figcaption></figure>
</section>
<section id="load"><h2>Error over load</h2>
<p>Where forecasts are too high, the error is above zero. A step is the median of rows with about \
the same load.</p>
<div class="pair">
<figure><div class="plot" id="plot-attention" role="img" aria-label="Error over the attention \
load, with medians and knots"></div><figcaption id="caption-attention"></figcaption></figure>
<figure><div class="plot" id="plot-ffn" role="img" aria-label="Error over the FFN load, with \
medians and knots"></div><figcaption id="caption-ffn"></figcaption></figure>
</div></section>
<section id="errors"><h2>Distribution of errors</h2>
<figure><div class="plot" id="plot-distribution" role="img" aria-label="Share of rows within each \
error, by fit"></div>
<figcaption>The share of answered rows whose error is at most that of the axis: the farther up and \
left, the better. All workers together, of the kind of work chosen above.</figcaption></figure>
</section>
<section id="cold"><h2>Cold start</h2>
<p>The mean error over the first rows that each worker met of a kind of work, the warm-up \
included.</p>
<figure><div class="plot" id="plot-cold" role="img" aria-label="Mean error over the first rows, by \
fit"></div><figcaption>Of the rows that were answered; how many those were, the table \
tells.</figcaption></figure>
{cold_table}</section>"""


def _few(timeline: Mapping[str, Any]) -> str:
    drawn, found = len(timeline["workers"]), timeline["workers_found"]
    if drawn == found:
        return ""
    return f"Of {count(found)} workers, the {count(drawn)} with the most rows are here. "


def _thinning(worker: Mapping[str, Any]) -> str:
    """What of a worker's rows the figures leave out."""
    if worker["every"] == 1:
        return "Every row of this worker with work and a latency is drawn."
    return (
        f"Thinned out: {count(len(worker['points']['row']))} of {plural(worker['rows'], 'row')} of "
        f"this worker are drawn here and over load. That is one row in {count(worker['every'])} "
        "and always the greatest spikes, the worst errors of each fit, and abstentions, as far as "
        "there is room. Medians over load are of the evenly chosen rows alone. The tables, the "
        "distribution and the cold start are of all rows."
    )


def _inputs(result: ReplayResult) -> str:
    by_input = result.results[0].by_input if result.results else {}
    blocks = [
        _input(source, by_input[source.path].rows if source.path in by_input else 0)
        for source in result.inputs
    ]
    return f'<section id="inputs"><h2>Inputs</h2>{"".join(blocks)}</section>'


def _input(source: ReplayInput, scored: int) -> str:
    skipped = "; ".join(
        f"{count(number)} {reason.replace('_', ' ')}"
        + (f" ({REASONS[reason]})" if reason in REASONS else "")
        for reason, number in source.skipped.items()
    )
    facts = {
        "files": ", ".join(source.files) if source.files != (source.path,) else "",
        "format": source.format or "unknown",
        "rows": f"{count(source.rows)} read, {count(scored)} scored",
        "left out": skipped or "none",
        "SHA-256": source.sha256 or "none: not a regular file",
    }
    notes = "".join(
        f"<details{' open' if len(texts) < 4 else ''}><summary>{plural(len(texts), what)}</summary>"
        f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul></details>"
        for what, texts in (("warning", source.warnings), ("fault", source.faults))
        if texts
    )
    return f"<article><h3>{escape(source.path)}</h3>{_facts(facts)}{notes}</article>"


def _setup(result: ReplayResult) -> str:
    facts = {
        "version": f"forepass {result.forepass_version}",
        "protocol": result.protocol or "online",
        "warm-up": f"{plural(result.warmup, 'row')} of each worker and kind of work",
    }
    configs = "".join(
        f"<details><summary>{escape(fit.fit)}</summary>"
        f'<pre tabindex="0">{escape(json.dumps(fit.config, indent=2))}</pre></details>'
        for fit in result.results
    )
    return f'<section id="setup"><h2>Configuration</h2>{_facts(facts)}{configs}</section>'


def _facts(facts: Mapping[str, str]) -> str:
    lines = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
        for name, text in facts.items()
        if text
    )
    return f'<dl class="facts">{lines}</dl>'
