"""The pages: what scripts write is current, code blocks run, links lead somewhere."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import forepass as fp
from forepass._core import LAUNCH_CODES
from pages import NOT_RUN, PAGES, Block, anchors, blocks, commands, links, sessions, shows
from steps import ROOT, decode_step

LAUNCH_PAGE = (ROOT / "docs" / "launch.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WITH_PYTHON = [
    page for page in PAGES if any(b.page == str(page.relative_to(ROOT)) for b in blocks("python"))
]

GIVEN: dict[str, dict[str, Any]] = {
    "README.md": {
        "engine_metrics": [decode_step(n, 900 * n, 0.01 + n / 1e4) for n in range(1, 80)],
        "batches": [1, 2],
        "contexts": [1000, 2000],
    }
}
"""What a page takes for granted."""


def test_the_launch_table_is_that_of_the_frozen_matrix() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "launch_matrix.py"))["page"]
    assert written(LAUNCH_PAGE) == LAUNCH_PAGE, "run `make docs`"
    assert written(LAUNCH_PAGE.replace("| accepted |", "| E_KIND |", 1)) == LAUNCH_PAGE


def test_the_api_page_is_what_the_docstrings_say() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "api_reference.py"))["page"]()
    committed = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert written == committed, "run `make docs`"
    for name in fp.__all__:
        assert f"`{name}`" in committed


def test_the_statistics_to_try_are_those_of_their_script() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "trtllm_stats.py"))["lines"]()
    committed = (ROOT / "docs" / "trtllm_stats.jsonl").read_text(encoding="utf-8")
    assert written == committed, "run `make docs`"
    assert len(committed) < 120_000
    linear, auto = fp.replay(ROOT / "docs" / "trtllm_stats.jsonl", baselines=False).results
    for fit in (linear, auto):
        assert set(fit.by_kind) == {"pure_prefill", "pure_decode", "contains_locally_mixed"}
        assert all(stats.eligible >= 20 for stats in fit.by_kind.values())


def test_the_codes_are_listed_in_the_order_of_the_checks() -> None:
    listed = re.findall(r"^\| `(E_\w+)` \|", LAUNCH_PAGE, re.MULTILINE)
    assert tuple(listed) == LAUNCH_CODES


def test_every_block_is_of_a_language_that_is_checked() -> None:
    # Rust is run by crates/forepass/tests/downstream.rs, pycon by the examples of the docstrings.
    checked = {"python", "console", "", "rust", "pycon", *NOT_RUN}
    assert [str(block) for block in blocks() if block.language not in checked] == []
    assert {block.page for block in blocks("pycon")} == {"docs/api.md"}
    for block in blocks(*NOT_RUN):
        assert not re.search(r"^(\$ )?forepass ", block.text, re.MULTILINE), block


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the pages name, and a trace and options of one's own."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("docs", "tests/data", "python/forepass/data"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(fp.sample_path(), folder / "trace.jsonl.gz")
    (folder / "options.yaml").write_text("max_batch_size: 8\n")
    return folder


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    name = page.relative_to(ROOT).as_posix()
    names = dict(GIVEN.get(name, {}))
    for block in blocks("python"):
        if block.page == name:
            code = "\n" * block.line + block.text
            exec(compile(code, page, "exec"), names)


def run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command of the pages, which is the package's own or what `make demo` ends with."""
    if words == ["make", "demo"]:
        assert "$(BIN)/forepass replay\n" in MAKEFILE
        words = ["forepass", "replay"]
    assert words[0] == "forepass", words
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("block", list(blocks("console")), ids=str)
def test_a_session_prints_what_is_shown(block: Block, folder: Path) -> None:
    told = sessions(block)
    assert told
    for words, shown in told:
        done = run(words, folder)
        assert shows(shown, done.stdout), f"{block}: now\n{done.stdout}"


@pytest.mark.parametrize("block", list(blocks("")), ids=str)
def test_a_command_of_a_page_succeeds(block: Block, folder: Path) -> None:
    told = commands(block)
    assert told
    for words in told:
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", MAKEFILE, re.MULTILINE), words
        else:
            done = run(words, folder)
            assert done.returncode == 0, f"{block}: {words}\n{done.stdout}"


def test_output_that_differs_is_noticed() -> None:
    printed = "/a/b.gz: 3 rows\nx 1.0% 2.25\ny\nz\n"
    assert shows(".../b.gz: 3 rows\nx 1.0%  11.00\n...\nz\n", printed)
    assert not shows(".../b.gz: 4 rows\nx 1.0%  11.00\n...\nz\n", printed)
    assert not shows(".../b.gz: 3 rows\nx 1.1%  11.00\n...\nz\n", printed)
    assert not shows(".../b.gz: 3 rows\nx 1.0%\nz\n", printed)


@pytest.mark.parametrize(
    "page",
    [
        *PAGES,
        *(ROOT / name for name in ("CONTRIBUTING.md", "benchmarks/README.md", "goldens/README.md")),
    ],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    reached = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert {page for page in PAGES[1:] if page != index} <= reached
    assert "docs/README.md" in links(ROOT / "README.md")
