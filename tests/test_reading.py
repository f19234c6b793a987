"""What the reading of a trace tells of records that are odd only beside the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import forepass as fp
from conftest import Command
from steps import decode_step, straight_line

Trace = Callable[..., Path]


def test_a_block_that_comes_again_is_not_learned_again(command: Command, trace: Trace) -> None:
    steps = [{**step, "counter_id": n} for n, step in enumerate(straight_line(100), 1)]
    path = trace([*steps, *steps[49:]])
    (source,) = fp.replay(path).inputs
    assert (source.rows, source.iterations) == (151, 100)
    assert source.skipped == {"duplicate_counter": 51}
    assert source.faults[0].startswith(f"{path}:101: counter_id: 50 of worker (no id), rank 0")
    (looked,) = fp.inspect(path)["inputs"]
    assert looked["workers"][""]["counter_restarts"] == 0
    run = command("replay", path, "--strict")
    assert (run.returncode, f"{path}:101: " in run.stderr) == (1, True)


def test_a_counter_that_goes_back_to_new_records_is_a_restart(trace: Trace) -> None:
    steps = [{**step, "counter_id": n} for n, step in enumerate(straight_line(100), 1)]
    slower = [{**step, "wall_time": 1.01 * step["wall_time"]} for step in steps[49:]]
    path = trace([*steps, *slower])
    assert fp.replay(path, strict=True).inputs[0].skipped == {}
    (looked,) = fp.inspect(path)["inputs"]
    assert looked["workers"][""]["counter_restarts"] == 1


def test_milliseconds_for_seconds_are_doubted(command: Command, trace: Trace) -> None:
    steps = [
        {"received_at_ns": 10_000_000 * n, "metrics": decode_step(n, 1000 * n, 5.7, counter_id=n)}
        for n in range(1, 101)
    ]
    path = trace(steps)
    # 100 steps of "5.7 s" in 99 gaps of 10 ms.
    doubt = f"warning: {path}: worker (no id): 570.000 s of forward passes in 0.990 s of recording"
    for verb in ("replay", "inspect"):
        assert command(verb, path).stderr.count(doubt) == 1


def test_polls_without_statistics_are_told_as_such(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    path.write_text("[]\n")
    run = command("replay", path)
    assert run.returncode == 1
    assert "an empty list: it holds no records and no statistics of iterations" in run.stderr
