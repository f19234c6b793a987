"""The course of a replay, the page that shows it, and the figures for papers."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import forepass as fp
from forepass import report
from steps import Record, decode_step, refused, straight_line

Trace = Callable[..., Path]

EVIL = "</script><script>globalThis.owned = 1</script><img src=x onerror='globalThis.owned=1'>"
PREFILL = {"num_prefill_requests": 1, "sum_prefill_tokens": 256}


def figure_data(page: str) -> dict[str, Any]:
    """What the figures of a page draw."""
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


def without_times(result: fp.ReplayResult) -> fp.ReplayResult:
    fits = [dataclasses.replace(fit, cpu_us_per_row=None) for fit in result.results]
    return dataclasses.replace(result, results=tuple(fits))


def uneven(count: int, spikes: tuple[int, ...] = ()) -> list[Record]:
    """Decode steps of 10 ms and about 1 ms a request; spikes last for 5 s."""
    source = random.Random(7)  # a seed, so that all runs see the same
    steps = []
    for row in range(count):
        requests = source.randint(1, 64)
        seconds = 5.0 if row in spikes else (0.01 + 0.001 * requests) * source.uniform(0.95, 1.05)
        steps.append(decode_step(requests, 700 * requests + row % 97, seconds))
    return steps


class Outline(HTMLParser):
    """The tags of a page and what they point at."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def test_the_course_follows_by_hand(trace: Trace) -> None:
    # The line takes five rows and is exact then; the warm-up takes six.
    steps = [{"wall_time": 0.0}, *straight_line(8)]
    path = trace(steps)
    result = fp.replay(path, "linear", warmup=6, baselines=False, timeline=True)
    assert result.timeline is not None
    (worker,) = result.timeline["workers"]
    assert (worker["input"], worker["rows"], worker["every"]) == (str(path), 8, 1)
    assert worker["kinds"] == ["pure_decode"]
    assert worker["points"] == {
        "row": [1, 2, 3, 4, 5, 6, 7, 8],  # the idle row is the first
        "kind": [0] * 8,
        "attention": [1000.0 * n for n in range(1, 9)],
        "ffn": [float(n) for n in range(1, 9)],
        "observed_ms": pytest.approx([10.0 + n for n in range(1, 9)]),
    }
    assert (worker["warming_up"], worker["spikes"]) == ([0, 1, 2, 3, 4, 5], [])
    (fit,) = worker["fits"]
    assert fit["predicted_ms"][:5] == [None] * 5
    assert fit["predicted_ms"][5:] == pytest.approx([16.0, 17.0, 18.0])
    assert fit["abstained"] == {"cold": 5}
    assert fit["abstentions"] == {"cold": [0, 1, 2, 3, 4]}
    assert sorted(fit["worst"]) == [6, 7]
    (curves,) = result.timeline["fits"]
    assert [entry["first"] for entry in curves["cold_start"]["all"]] == [1, 2, 5, 10]
    assert curves["cold_start"]["all"][2]["answered"] == 0
    last = curves["cold_start"]["pure_decode"][3]
    assert (last["rows"], last["answered"]) == (8, 3)
    assert last["mape_pct"] == pytest.approx(0.0, abs=1e-6)
    assert curves["distribution_pct"]["all"] == pytest.approx([0.0] * 60, abs=1e-6)


def test_the_course_is_told_where_it_is_asked_for(trace: Trace) -> None:
    path = trace(straight_line(20))
    plain, told = fp.replay(path), fp.replay(path, timeline=True)
    assert (plain.timeline, "timeline" in plain.to_dict()) == (None, False)
    assert fp.ReplayResult.from_document(json.loads(told.to_json())) == told
    assert without_times(dataclasses.replace(told, timeline=None)) == without_times(plain)
    error = refused(fp.ForepassError, lambda: report.page(plain))
    assert (error.code, "timeline=True" in str(error)) == ("missing_timeline", True)


def test_spikes_events_and_knots_are_in_the_course(trace: Trace) -> None:
    path = trace(uneven(400, spikes=(150, 333)))
    result = fp.replay(path, ["spline", "auto"], timeline=True)
    assert result.timeline is not None
    (worker,) = result.timeline["workers"]
    assert (worker["spikes_found"], worker["spikes"]) == (2, [150, 333])
    spline, auto = worker["fits"][:2]
    # The first search comes with the 32nd row.
    assert spline["events"]["knot_search"]["rows"][0] == 31
    assert auto["events"]["refit"]["count"] >= len(auto["events"]["knot_search"]["rows"]) > 0
    for fit in (spline, auto):
        attention, ffn = fit["knots"]["pure_decode"]
        assert len(attention) + len(ffn) > 0
    assert {150, 333} <= set(auto["worst"])
    assert auto["interval_ms"][-1][0] < auto["predicted_ms"][-1] < auto["interval_ms"][-1][1]
    assert spline["interval_ms"] is None
    bins = auto["load"]["pure_decode"][1]
    assert (bins[0]["from"], bins[-1]["to"]) == (1.0, 64.0)
    assert sum(each["rows"] for each in bins) == 400 - 64


def test_a_fit_with_weights_of_its_own_has_features_of_its_own(trace: Trace) -> None:
    config = fp.ForwardPassModel(worker_type="aggregated", fit="linear").config
    config["estimator_config"]["features"]["ffn_token_weight"] = 3.0
    result = fp.replay(trace(straight_line(8)), ["linear", ("own", config)], timeline=True)
    assert result.timeline is not None
    plain, weighted = result.timeline["workers"][0]["fits"][:2]
    assert "features" not in plain
    assert weighted["features"] == [[1000.0 * n, 3.0 * n] for n in range(1, 9)]


def test_the_page_stands_alone_and_is_the_same_each_time(trace: Trace) -> None:
    path = trace(uneven(120))
    first, second = (without_times(fp.replay(path, timeline=True)) for _ in range(2))
    page = report.page(first)
    assert page == report.page(second)
    outline = Outline(page)
    assert outline.all("html") == [{"lang": "en"}]
    (policy,) = (meta["content"] for meta in outline.all("meta") if "http-equiv" in meta)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy.split("style-src")[0]
    targets = [
        attrs[name] for _, attrs in outline.tags for name in ("src", "href") if name in attrs
    ]
    assert targets
    assert all(target and target.startswith(("#", "data:")) for target in targets)
    plots = [div for div in outline.all("div") if div.get("role") == "img"]
    assert len(plots) == 5
    assert all(plot["aria-label"] for plot in plots)
    ids = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
    assert {target[1:] for target in targets if target and target[0] == "#"} <= set(ids)
    assert "#intervals" in targets
    for shown in (path.name, result_hash(first), fp.__version__, "fpm_jsonl", "standardized_nnls"):
        assert shown in page


def result_hash(result: fp.ReplayResult) -> str:
    sha256 = result.inputs[0].sha256
    assert sha256 is not None
    return sha256


def test_nothing_of_a_trace_becomes_part_of_the_page(tmp_path: Path, trace: Trace) -> None:
    steps = [{**step, "worker_id": EVIL} for step in straight_line(12)]
    path = trace(steps, EVIL.replace("/", "_") + ".jsonl")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(fp.ForwardPassModel().config))
    result = fp.replay(path, ["auto", (EVIL, config)], warmup=5, by_worker=True, timeline=True)
    page = report.page(result)
    outline = Outline(page)
    assert outline.all("img") == []
    assert len(outline.all("script")) == 3
    assert "<img" not in page
    assert figure_data(page)["workers"][0]["worker_id"] == EVIL


def test_what_is_odd_still_makes_a_page(trace: Trace, tmp_path: Path) -> None:
    idle = trace([{"wall_time": 0.0}] * 3, "idle.jsonl")
    page = report.page(fp.replay(idle, timeline=True))
    assert "1 trace, 3 rows, none of them with both work and a latency." in page
    short = trace(straight_line(3), "short.jsonl")
    page = report.page(fp.replay([idle, short], timeline=True))
    assert "lower the bar with --warmup" in page
    sudden = decode_step(3, 3000, 1e-320)  # whose relative error is beyond all numbers
    bad = trace([*straight_line(80), sudden, {"version": 2}, decode_step(1, 10)], "bad.jsonl")
    result = fp.replay([bad, short], timeline=True, by_worker=True)
    page = report.page(result)
    # 80 + 1 + 3: neither the version that is none nor the row without a time.
    assert "84 with work and a latency were put to the models" in page
    assert "#intervals" not in report.page(fp.replay(bad, "linear", timeline=True))
    assert "2 faults" in page
    assert "no rank tells a time above zero" in page
    assert "By fit and worker" in page
    for number, odd in enumerate((fp.replay(idle, timeline=True), result)):
        assert report.write_figures(odd, tmp_path / str(number))


def test_many_rows_are_thinned_out_and_the_page_says_so(trace: Trace) -> None:
    spikes = (12_345, 77_777, 99_999)
    path = trace(uneven(100_000, spikes))
    result = fp.replay(path, timeline=True)
    page = report.page(result)
    assert len(page.encode()) < 5_000_000
    assert result.timeline is not None
    (worker,) = result.timeline["workers"]
    # 100,000 rows in at most 4,096: every 32nd.
    assert (worker["rows"], worker["every"]) == (100_000, 32)
    drawn = worker["points"]["row"]
    assert set(range(0, 100_000, 32)) <= set(drawn)
    assert [drawn[place] for place in worker["spikes"]] == list(spikes)
    (told,) = figure_data(page)["thinning"]
    assert f"Thinned out: {len(drawn):,} of 100,000 rows of this worker" in told
    assert "one row in 32" in told
    for fit in worker["fits"]:
        for reason, places in fit["abstentions"].items():
            assert len(places) >= min(fit["abstained"][reason], 100)
        worst = [abs(fit["error_pct"][place]) for place in fit["worst"]]
        assert worst == sorted(worst, reverse=True)
        others = set(range(len(drawn))) - set(fit["worst"]) - set(worker["warming_up"])
        errors = [fit["error_pct"][place] for place in others]
        assert max(abs(error) for error in errors if error is not None) <= worst[-1]


def test_a_thousand_workers_still_make_a_small_page(trace: Trace) -> None:
    # The first 200 of them have twice as many rows.
    steps = uneven(60 * 1200)
    path = trace([{**step, "worker_id": f"w{n % 1200 % 1000}"} for n, step in enumerate(steps)])
    page = report.page(fp.replay(path, timeline=True))
    assert len(page.encode()) < 5_000_000
    assert "72,000 rows of 1,000 workers" in page
    assert "Of 1,000 workers, the 200 with the most rows are here." in page
    workers = figure_data(page)["workers"]
    assert [worker["worker_id"] for worker in workers] == [f"w{n}" for n in range(200)]
    assert {worker["rows"] for worker in workers} == {120}


def test_figures_are_svg_and_the_same_each_time(trace: Trace, tmp_path: Path) -> None:
    steps = uneven(90, spikes=(80,))
    steps += [{"wall_time": 0.02, "scheduled_requests": PREFILL, "worker_id": ""}] * 3
    result = fp.replay(trace(steps, "a$b_<c>.jsonl"), timeline=True)
    first, second = (report.write_figures(result, tmp_path / name) for name in "ab")
    names = ["distribution.svg", "cold-start.svg", "timeline-1.svg", "load-1.svg"]
    assert [path.name for path in first] == names
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert ET.parse(one).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert report.write_figures(result, tmp_path / "a") == first


def test_of_many_workers_those_with_the_most_rows_are_drawn(trace: Trace, tmp_path: Path) -> None:
    # Ten workers, of which the first and the sixth have one row less than the others.
    steps = [
        {**step, "worker_id": f"w{worker}"}
        for number, step in enumerate(straight_line(6))
        for worker in range(10)
        if number < 5 or worker not in (0, 5)
    ]
    result = fp.replay(trace(steps), "linear", timeline=True)
    assert result.timeline is not None
    workers = [of for of in result.timeline["workers"] if of["worker_id"] not in ("w0", "w5")]
    fewer = dataclasses.replace(result, timeline={**result.timeline, "workers": workers})
    drawn, expected = (
        report.write_figures(of, tmp_path / name) for of, name in ((result, "a"), (fewer, "b"))
    )
    assert (len(drawn), drawn[-1].name) == (2 + 2 * 8, "load-8.svg")
    assert [path.read_bytes() for path in drawn] == [path.read_bytes() for path in expected]


def test_a_verdict_takes_about_the_same_rows(trace: Trace) -> None:
    result = fp.replay(trace(uneven(120)), "linear", timeline=True)
    linear, last, median = result.results

    def words(coverage_pct: float, mape_pct: float, *baselines: fp.FitResult) -> str:
        stats = dataclasses.replace(linear.overall, coverage_pct=coverage_pct, mape_pct=mape_pct)
        fits = (dataclasses.replace(linear, overall=stats), *baselines)
        page = report.page(dataclasses.replace(result, results=fits))
        return page[page.index("<article>") : page.index("</article>")].replace("\xa0", " ")

    def of(fit: fp.FitResult, mape_pct: float) -> fp.FitResult:
        stats = dataclasses.replace(fit.overall, coverage_pct=100.0, mape_pct=mape_pct)
        return dataclasses.replace(fit, overall=stats)

    both = of(last, 9.0), of(median, 8.0)
    better = "the better of the forecasts that know no load, median with 8.0 %."
    assert f"It beats {better}" in words(100.0, 7.0, *both)
    assert "mean error</span>" in words(100.0, 7.0, *both)
    assert f"It equals {better}" in words(100.0, 8.0, *both)
    assert f"It loses to (over the 95.0 % it answered) {better}" in words(95.0, 8.5, *both)
    one = words(100.0, 9.5, both[0])
    assert "It loses to the forecast that knows no load, last with 9.0 %." in one
    partial = words(94.9, 7.0, *both)
    assert "mean error over the 94.9 % it answered</span>" in partial
    assert "not set against median, which knows no load and has 8.0 %" in partial
    assert ("beats" in partial, "loses" in partial) == (False, False)
    alone = words(100.0, 7.0)
    assert "knows no load" not in alone


def test_traces_have_the_shortest_names_that_tell_them_apart(trace: Trace, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    paths = [trace(straight_line(9), name) for name in ("a/x.jsonl", "b/x.jsonl", "a/y.jsonl")]
    page = report.page(fp.replay(paths, warmup=5, by_worker=True, timeline=True))
    short = [str(Path("a", "x.jsonl")), str(Path("b", "x.jsonl")), "y.jsonl"]
    assert figure_data(page)["names"] == dict(zip(map(str, paths), short, strict=True))
    for path, name in zip(paths, short, strict=True):
        assert f'title="{path}">{name}</td>' in page
        assert f'title="{path} \N{MIDDLE DOT} no id">{name} \N{MIDDLE DOT} no id</td>' in page


def test_a_report_never_overwrites_its_trace(trace: Trace, tmp_path: Path) -> None:
    path = trace(straight_line(), "timeline-1.svg")
    before = path.read_bytes()
    result = fp.replay(path, timeline=True)
    for write in (
        lambda: report.write_page(result, path),
        lambda: report.write_page(result, tmp_path),
        lambda: report.write_page(result, tmp_path / "no" / "page.html"),
        lambda: report.write_figures(result, tmp_path),
        lambda: report.write_figures(result, path),
        lambda: report.write_figures(result, tmp_path / "no" / "figures"),
    ):
        assert refused(fp.ForepassError, write).code == "unwritable"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
