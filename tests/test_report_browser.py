"""The report page in a real browser: what it shows, what it does, and what it must not do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import forepass as fp
from forepass import report
from steps import Record, decode_step, straight_line
from test_report import EVIL, PREFILL, uneven

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
PLOTS = ("course", "attention", "ffn", "distribution", "cold")
WIDTHS = {"laptop": 1280, "phone": 390}

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser on the path: {', '.join(BROWSERS)}"
)

Open = Callable[..., "sync_api.Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    # Its own sandbox does not work as root, nor in most containers.
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: sync_api.Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of records; in the end nothing was complained of, and nothing requested."""
    told: list[str] = []
    requested: list[str] = []
    contexts = []

    def watch(page: sync_api.Page) -> None:
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))

    def open_page(
        records: dict[str, list[Record]],
        width: int = 1280,
        scheme: str = "light",
        script: str | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        *,
        runs: bool = True,
    ) -> sync_api.Page:
        traces = []
        for name, lines in records.items():
            traces.append(tmp_path / name)
            traces[-1].write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        result = fp.replay(traces, ["linear", "spline", "auto"], by_worker=True, timeline=True)
        if change is not None:
            assert isinstance(result.timeline, dict)
            change(result.timeline)
        path = report.write_page(result, tmp_path / "report.html")
        is_phone = width < 500
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            is_mobile=is_phone,
            has_touch=is_phone,
            java_script_enabled=runs,
        )
        contexts.append(context)
        page = context.new_page()
        watch(page)
        if script is not None:
            page.add_init_script(script)
        page.goto(path.as_uri())
        expected.append(path.as_uri())
        return page

    expected: list[str] = []
    yield open_page
    for context in contexts:
        context.close()
    assert told == []
    beside = [url for url in requested if not url.startswith(("data:", "blob:"))]
    assert beside == expected


def workers() -> dict[str, list[Record]]:
    """A trace of two workers, with a spike, prefill and a bad line, and a trace of one."""
    first = [{**step, "worker_id": "one"} for step in uneven(300, spikes=(200,))]
    scheduled = [{"num_prefill_requests": 1, "sum_prefill_tokens": 64 * n} for n in range(1, 100)]
    prefill = [
        {"wall_time": 0.02 + 1e-4 * row, "scheduled_requests": work, "worker_id": "two"}
        for row, work in enumerate(scheduled)
    ]
    decode = [{**step, "worker_id": "two"} for step in uneven(30)]
    second = [*prefill, *decode, {"version": 2}]
    return {"two.jsonl": [*first, *second], "one.jsonl": uneven(90)}


def drawn(page: sync_api.Page) -> sync_api.Page:
    page.wait_for_selector("html[data-drawn]", timeout=30_000)
    return page


def until(page: sync_api.Page, condition: str) -> bool:
    """Whether a condition comes true; the page forbids the means that playwright has for it."""
    for _ in range(100):
        if page.evaluate(condition):
            return True
        page.wait_for_timeout(50)
    return False


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_the_figures_are_there_and_fit(opened: Open, width: int, scheme: str) -> None:
    page = drawn(opened(workers(), width, scheme))
    for plot in PLOTS:
        assert page.locator(f"#plot-{plot} svg.main-svg").count() > 0, plot
        marks = page.locator(f"#plot-{plot} .scatterlayer path")
        assert marks.count() > 3, plot
        box = page.locator(f"#plot-{plot}").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert len(page.screenshot(full_page=True)) > 50_000
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for plot in PLOTS:
        background = page.locator(f"#plot-{plot} svg.main-svg").first
        assert background.evaluate("svg => svg.style.background") == paper


def test_it_follows_a_change_of_the_colour_scheme(opened: Open) -> None:
    page = drawn(opened(workers()))
    background = "document.querySelector('#plot-course svg.main-svg').style.background"
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    assert until(page, f"{background} !== {light!r}")


def test_a_click_on_a_head_sorts(opened: Open) -> None:
    page = drawn(opened(workers()))
    table = page.locator("#accuracy table").first

    def column(index: int) -> list[str]:
        return table.locator(f"tbody td:nth-child({index})").evaluate_all(
            "cells => cells.map(cell => cell.dataset.value)"
        )

    def numbers(index: int) -> list[float]:
        return [float(value) for value in column(index) if value]

    worst_first = numbers(3)
    assert worst_first == sorted(worst_first, reverse=True)
    head = table.locator("th button", has_text="mean error")
    head.click()
    assert numbers(3) == sorted(worst_first)
    assert table.locator("th[aria-sort]").evaluate("head => head.ariaSort") == "ascending"
    table.locator("th button", has_text="p99").click()
    assert numbers(6) == sorted(numbers(6), reverse=True)
    table.locator("th button", has_text="fit").press("Enter")
    assert column(1) == sorted(column(1))


def test_the_controls_choose_what_is_drawn(opened: Open) -> None:
    page = drawn(opened(workers()))
    options = page.locator("#worker option").all_text_contents()
    assert options == ["two.jsonl \u00b7 one", "two.jsonl \u00b7 two", "one.jsonl"]
    names = "document.querySelector('#plot-course').data.map(trace => trace.name)"
    assert {"observed", "predicted", "spike", "worst", "abstained"} <= set(page.evaluate(names))
    assert {"knot search", "refit"} <= set(page.evaluate(names))
    page.select_option("#fit", label="last")
    assert "refit" not in page.evaluate(names)
    page.select_option("#fit", label="auto")
    assert "interval" in page.evaluate(names)
    shapes = "document.querySelector('#plot-ffn').layout.shapes.length"
    assert page.evaluate(shapes) > 0
    page.select_option("#worker", label="two.jsonl \u00b7 two")
    assert page.locator("#kind option").all_text_contents() == ["all", "decode", "prefill"]
    observed = "document.querySelector('#plot-course').data.find(of => of.name === 'observed')"
    assert page.evaluate(f"{observed}.x.length") == 129
    assert "interval" not in page.evaluate(names)
    page.select_option("#kind", label="prefill")
    assert page.evaluate(f"{observed}.x.length") == 99
    assert "interval" in page.evaluate(names)
    page.locator("#log").uncheck()
    assert page.evaluate("document.querySelector('#plot-course').layout.yaxis.type") == "linear"


def test_the_far_end_of_an_interval_does_not_set_the_axis(opened: Open) -> None:
    def widen(timeline: dict[str, Any]) -> None:
        timeline["workers"][2]["fits"][2]["interval_ms"][-1] = [1e-3, 1e6]

    page = drawn(opened(workers(), change=widen))
    page.select_option("#worker", label="one.jsonl")
    assert "interval" in page.locator("#plot-course .legendtext").all_text_contents()
    span = "document.querySelector('#plot-course')._fullLayout.yaxis.range"
    # Latencies of 1 to 64 requests are 10.45 to 77.7 ms, and forecasts hardly beyond.
    least, most = (10**end for end in page.evaluate(span))
    assert 1 < least < 11
    assert 70 < most < 160
    page.locator("#log").uncheck()
    least, most = page.evaluate(span)
    assert least == 0
    assert 70 < most < 160


def test_on_a_phone_the_legend_leaves_room_and_the_buttons_alone(opened: Open) -> None:
    page = drawn(opened(workers(), WIDTHS["phone"]))
    assert page.locator("#fit option:checked").inner_text() == "auto"
    for worker, kind, entries in (("one", "decode", 6), ("two", "prefill", 5)):
        page.select_option("#worker", label=f"two.jsonl \u00b7 {worker}")
        page.locator("#kind").evaluate("select => { select.disabled = false }")
        page.select_option("#kind", label=kind)
        names = page.locator("#plot-course .legendtext").all_text_contents()
        assert {"interval", "observed", "predicted", "worst", "abstained"} <= set(names)
        assert len(names) == entries
        for plot in PLOTS:
            found = [
                page.locator(f"#plot-{plot} {part}").first.bounding_box()
                for part in (".main-svg", ".modebar-btn", ".legend", ".nsewdrag")
            ]
            whole, button, legend, field = (box for box in found if box is not None)
            assert legend["y"] >= button["y"] + button["height"], plot
            assert legend["y"] + legend["height"] <= field["y"] + 1, plot
            assert legend["height"] < 70, plot
            assert field["height"] > 0.4 * whole["height"], plot
            assert field["width"] > 250, plot
    assert not page.locator(".by-mouse").is_visible()
    assert page.locator(".by-touch").is_visible()
    column = page.locator("#accuracy td[title]").first.bounding_box()
    assert column is not None
    assert column["width"] >= 9 * 16


def test_axes_have_units_and_begin_where_they_can_be_read(opened: Open) -> None:
    for width, decades in ((WIDTHS["laptop"], 1), (WIDTHS["phone"], 2)):
        page = drawn(opened(workers(), width))
        layouts = {
            plot: page.evaluate(f"document.querySelector('#plot-{plot}').layout.xaxis")
            for plot in PLOTS
        }
        titles = {plot: layout["title"]["text"] for plot, layout in layouts.items()}
        assert titles["attention"] == "attention load: KV tokens and query-key pairs"
        assert titles["ffn"] == "FFN load: tokens"
        distribution = layouts["distribution"]
        assert (distribution["range"][0], distribution["dtick"]) == (-2, decades)
        ticks = page.locator("#plot-distribution .xtick text").all_text_contents()
        assert ticks[: 3 - decades] == ["0.01", "0.1"][: 3 - decades]
        assert "2" in page.locator("#plot-cold .xtick text").all_text_contents()


def test_it_tells_what_of_the_marks_is_drawn(opened: Open) -> None:
    def thin(timeline: dict[str, Any]) -> None:
        worker = timeline["workers"][0]
        worker["every"], worker["rows"] = 4, 1200
        auto = worker["fits"][2]
        auto["events"]["refit"] = {"count": 9, "rows": [64, 128, 192]}
        auto["abstained"]["cold"] += 100

    page = drawn(opened(workers(), change=thin))
    cold = page.locator("#told-course").inner_text()
    assert "of them drawn)" in cold
    # Marks are left out by halves: nine in fours are three.
    assert "refit 9 times (one mark in 4 is drawn)" in cold
    assert "one row in 4 and always" in page.locator("#told-thinning").inner_text()
    page.select_option("#worker", label="one.jsonl")
    assert "Every row of this worker" in page.locator("#told-thinning").inner_text()
    assert "drawn)" not in page.locator("#told-course").inner_text()


def test_only_fits_with_knots_speak_of_knots(opened: Open) -> None:
    page = drawn(opened(workers()))
    knots = "document.querySelector('#caption-ffn').textContent.includes('knots')"
    assert page.evaluate(knots)
    for fit in ("linear", "last"):
        page.select_option("#fit", label=fit)
        assert not page.evaluate(knots)


def test_long_tables_scroll_below_their_heads(opened: Open) -> None:
    steps = [{**step, "worker_id": f"w{n % 30}"} for n, step in enumerate(uneven(90))]
    page = drawn(opened({"many.jsonl": steps}))
    box = page.locator("#accuracy .scroll", has_text="By fit and worker")
    assert box.evaluate("box => box.scrollHeight > 2 * box.clientHeight")
    assert box.evaluate("box => box.clientHeight") <= 0.8 * 900
    box.evaluate("box => box.scrollTo(0, 500)")
    top, head = (of.bounding_box() for of in (box, box.locator("th").first))
    assert top is not None
    assert head is not None
    assert head["y"] == pytest.approx(top["y"], abs=2)


def test_tables_come_worst_first(opened: Open) -> None:
    page = drawn(opened(workers()))
    columns = page.locator("table").evaluate_all(
        """tables => tables.map(table => {
            const column = table.querySelector("[aria-sort=descending]").cellIndex;
            return [...table.tBodies[0].rows].map(row => row.cells[column].dataset.value);
        })"""
    )
    assert len(columns) == 5
    for column in columns:
        numbers = [float(value) for value in column if value]
        assert len(numbers) > 1
        assert numbers == sorted(numbers, reverse=True)
        assert "" not in column[: len(numbers)]


def test_without_scripts_the_page_is_its_tables(opened: Open) -> None:
    page = opened(workers(), runs=False)
    assert page.locator("noscript p").is_visible()
    assert page.locator("#accuracy table").first.is_visible()
    for hidden in ("#controls", "#plot-course", "#load", ".scripted"):
        assert not page.locator(hidden).is_visible(), hidden


def test_the_course_can_be_zoomed(opened: Open) -> None:
    page = drawn(opened(workers()))
    span = "document.querySelector('#plot-course').layout.xaxis.range"
    whole = page.evaluate(span)
    page.locator("#plot-course").scroll_into_view_if_needed()
    box = page.locator("#plot-course .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.8 * box["height"], steps=5)
    page.mouse.up()
    assert until(page, f"{span}[0] > {whole[0]}")


def test_nothing_of_a_trace_runs(opened: Open) -> None:
    steps = [{**step, "worker_id": EVIL} for step in straight_line(80)]
    page = drawn(opened({EVIL.replace("/", "_"): steps}))
    assert page.locator("#worker option").first.text_content().endswith(EVIL)
    assert page.evaluate("globalThis.owned") is None
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_a_trace_that_says_little_makes_a_good_page(opened: Open, width: int) -> None:
    prefill = {"wall_time": 0.02, "scheduled_requests": PREFILL}
    page = drawn(opened({"few.jsonl": [decode_step(1, 9, 0.01), prefill]}, width))
    assert "counts towards accuracy" in page.locator("#plot-distribution").inner_text()
    assert page.locator("#plot-course svg.main-svg").count() > 0
    told = page.locator("#load .message").filter(visible=True)
    assert told.all_inner_texts() == [
        "No row of these counts towards accuracy: there is no error to draw."
    ]
    page = drawn(opened({"idle.jsonl": [{"wall_time": 0.0}] * 2}, width))
    for plot in PLOTS:
        assert page.locator(f"#plot-{plot} .message").is_visible() == (plot != "ffn")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_browser_that_cannot_unpack_says_so(opened: Open) -> None:
    page = opened(workers(), script="delete globalThis.DecompressionStream")
    message = page.locator("#plot-course .message", has_text="This browser cannot unpack")
    message.wait_for()
    assert page.locator("#accuracy tbody tr").count() > 10
