"""Reports as a user asks for them at the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command
from steps import ROOT, straight_line

Trace = Callable[..., Path]


def test_a_statistics_file_of_an_engine_becomes_a_report(command: Command, tmp_path: Path) -> None:
    page, figures = tmp_path / "report.html", tmp_path / "figures"
    stats = ROOT / "tests" / "data" / "trtllm_stats.json"
    run = command("replay", stats, "--html", page, "--figures", figures)
    assert (run.returncode, "Traceback" in run.stderr) == (0, False), run.stderr
    assert f"the report is {page}" in run.stderr
    assert "2 scored" in run.stdout
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert len(list(figures.iterdir())) == 4


def test_the_report_can_be_made_of_the_results_as_json(command: Command, trace: Trace) -> None:
    path = trace(straight_line(30))
    page = path.with_suffix(".html")
    run = command("replay", path, "--html", page, "--json", "-")
    assert (run.returncode, "timeline" in json.loads(run.stdout)) == (0, True)
    code = (
        "import json, sys; from forepass import ReplayResult, report\n"
        "result = ReplayResult.from_document(json.load(sys.stdin))\n"
        "sys.stdout.buffer.write(report.page(result).encode())"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], input=run.stdout.encode(), capture_output=True, check=True
    )
    assert made.stdout == page.read_bytes()


def test_bad_targets_are_told_before_anything_is_read(
    command: Command, trace: Trace, tmp_path: Path
) -> None:
    path = trace(straight_line())
    before = path.read_bytes()
    both = tmp_path / "both"
    figure = tmp_path / "distribution.svg"
    for arguments, told in [
        (["--html", path], f"{path}: cannot be written"),
        (["--html", tmp_path], f"{tmp_path}: cannot be written: this is a directory"),
        (["--html", tmp_path / "no" / "page.html"], "its directory does not exist"),
        (["--html", both, "--json", both], "--json and --html name the same file"),
        (["--html", both, "--predictions", both], "--predictions and --html name the same file"),
        (["--figures", path], f"{path}: cannot be written: this is not a directory"),
        (["--figures", tmp_path / "no" / "figures"], "its directory does not exist"),
        *(
            (["--figures", tmp_path, option, figure], f"{figure}: cannot be written: a figure has")
            for option in ("--html", "--json", "--predictions")
        ),
    ]:
        run = command("replay", path, *arguments)
        assert (run.returncode, run.stdout, "Traceback" in run.stderr) == (1, "", False)
        assert told in run.stderr
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert command("replay", path, "--html", "-").returncode == 2


def test_the_figures_of_many_workers_are_few(
    command: Command, trace: Trace, tmp_path: Path
) -> None:
    path = trace([{**step, "worker_id": f"w{n}"} for n, step in enumerate(straight_line(9))])
    run = command("replay", path, "--figures", tmp_path / "figures")
    told = (
        "18 figures are in {}: those of each worker are of the 8 with the most rows, of 9 workers"
    )
    assert told.format(tmp_path / "figures") in run.stderr
    assert len(list((tmp_path / "figures").iterdir())) == 18


@pytest.mark.parametrize(("package", "option"), [("plotly", "--html"), ("matplotlib", "--figures")])
def test_without_its_extra_it_says_what_to_install(
    trace: Trace, tmp_path: Path, package: str, option: str
) -> None:
    path = trace(straight_line())
    code = (
        f"import sys; sys.modules['{package}'] = None\n"
        "from forepass.cli import main; sys.argv[1:] = sys.argv[1:]; main()"
    )
    arguments = [sys.executable, "-c", code, "replay", path, option, tmp_path / "out"]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"forepass: {option} needs {package}: pip install 'forepass[report]'\n"
