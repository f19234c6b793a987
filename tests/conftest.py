"""A taught model, traces on disk and the command, for all tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import forepass as fp
from steps import Record, straight_line

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def taught() -> fp.ForwardPassModel:
    model = fp.ForwardPassModel()
    model.observe_batch(straight_line())
    return model


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Path]:
    """Writes records as a trace, and returns its path."""

    def write(records: list[Record], name: str = "trace.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        return path

    return write


@pytest.fixture
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """Runs the command as a user would, in an empty directory."""
    empty = tmp_path_factory.mktemp("empty")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "forepass", *map(str, arguments)],
            cwd=empty,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    yield run
    assert list(empty.iterdir()) == [], "the command leaves nothing behind"
