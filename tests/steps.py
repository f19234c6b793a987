"""Engine steps, recordings, and what tests ask of models and errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forepass as fp

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("FOREPASS_TRACES", ROOT.parent / "shared" / "traces"))

Record = dict[str, Any]


def decode_step(requests: int, kv_tokens: int, wall_time: float = 0.0, **metadata: Any) -> Record:
    scheduled = {"num_decode_requests": requests, "sum_decode_kv_tokens": kv_tokens}
    return {"wall_time": wall_time, "scheduled_requests": scheduled, **metadata}


def straight_line(count: int = 12) -> list[Record]:
    """Decode steps of exactly 10 ms and 1 ms more a request."""
    return [decode_step(n, 1000 * n, 0.010 + 0.001 * n) for n in range(1, count + 1)]


def state_of(model: fp.ForwardPassModel) -> tuple[Any, ...]:
    """What can be seen of a model's state: its counts, and bit for bit what it answers."""
    queries = [decode_step(n, 700 * n * n) for n in range(1, 20)]
    answers = [(f.ms, f.source, f.kind, f.reason) for f in map(model.forecast, queries)]
    return model.diagnostics(), answers


def refused(error: type[fp.ForepassError], call: Callable[[], object]) -> fp.ForepassError:
    """The error that the call raises, which must be of exactly this class."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert caught.value.code
    assert str(caught.value)
    return caught.value


def recordings() -> list[Path]:
    return sorted(TRACES.glob("*/*.gz"))


needs_recordings = pytest.mark.skipif(
    not recordings(),
    reason=f"no recordings in {TRACES}: set FOREPASS_TRACES to the folder that holds them",
)
