"""All recordings of real engines in one call of the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import forepass
from conftest import Command
from steps import TRACES

RECORDINGS = sorted((TRACES / "b300").glob("*.csv.gz"))


def without_times(output: str) -> str:
    """The very text but for the lines that tell what a row cost."""
    lines = output.splitlines(keepends=True)
    return "".join(line for line in lines if '"cpu_us_per_row"' not in line)


@pytest.mark.skipif(not RECORDINGS, reason=f"no recordings in {TRACES / 'b300'}")
def test_all_recordings_give_the_same_bytes_every_time(command: Command) -> None:
    outputs = []
    for options in ([], [], ["--threads", "1"]):
        run = command("replay", *RECORDINGS, "--json", "-", *options)
        assert run.returncode == 0, run.stderr
        outputs.append(run.stdout)
    assert len(set(map(without_times, outputs))) == 1
    document: dict[str, Any] = json.loads(outputs[0])
    assert [source["path"] for source in document["inputs"]] == list(map(str, RECORDINGS))
    for result in document["results"]:
        for source in document["inputs"]:
            scored = result["by_input"][source["path"]]["rows"]
            assert source["rows"] == scored + sum(source["skipped"].values())
        by_kind = (stats["rows"] for stats in result["by_kind"].values())
        by_input = (stats["rows"] for stats in result["by_input"].values())
        assert result["overall"]["rows"] == sum(by_kind) == sum(by_input)


@pytest.mark.skipif(not RECORDINGS, reason=f"no recordings in {TRACES / 'b300'}")
def test_the_spline_answers_no_row_that_the_line_does_not(tmp_path: Path) -> None:
    everything = [*RECORDINGS, *sorted((TRACES / "cpu").glob("*.jsonl.gz"))]
    predictions = tmp_path / "predictions.csv"
    fits = ("linear", "spline", "spline-periodic")
    forepass.replay(everything, fits=fits, baselines=False, predictions=predictions)
    answered: dict[str, set[tuple[str, str]]] = {fit: set() for fit in fits}
    with predictions.open(newline="") as lines:
        for line in csv.DictReader(lines):
            if line["predicted_ms"]:
                answered[line["fit"]].add((line["input"], line["row"]))
    assert len(answered["spline"]) > 70_000
    assert answered["spline"] <= answered["linear"]
    # What the line answers is the same whatever the schedule of the spline's knots.
    assert answered["spline"] == answered["spline-periodic"]
