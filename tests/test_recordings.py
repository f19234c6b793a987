"""All recordings of real engines in one call of the command."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
