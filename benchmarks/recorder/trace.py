"""The lines of a trace, and what their counters tell of messages that were lost."""

import json
from io import BufferedIOBase
from typing import Any

FPM_VERSION = 1


class RecordingError(Exception):
    """Why nothing was recorded, and what to do about it."""


class Trace:
    """Writes messages as lines, and counts them and those that were lost before one."""

    def __init__(self, file: BufferedIOBase, worker_id: str) -> None:
        self._file = file
        self._worker_id = worker_id
        self.rows = 0
        self.heartbeats = 0
        self.first_counter: int | None = None
        self.last_counter: int | None = None
        self.gaps = 0
        self.lost_messages = 0

    def add(self, received_at_ns: int, metrics: dict[str, Any]) -> None:
        """One message, which must be the next of this very engine, or a later one."""
        if metrics.get("version") != FPM_VERSION:
            raise RecordingError(
                f"a message is of version {metrics.get('version')!r}, not {FPM_VERSION}: "
                "install the versions of benchmarks/record_requirements.txt"
            )
        if metrics.get("worker_id") != self._worker_id:
            raise RecordingError(
                f"a message is of the worker {metrics.get('worker_id')!r}, "
                f"not {self._worker_id!r}: another engine publishes on this port"
            )
        self._count(metrics["counter_id"])
        self.rows += 1
        self.heartbeats += metrics["wall_time"] == 0.0
        line = {"received_at_ns": received_at_ns, "metrics": metrics}
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _count(self, counter: int) -> None:
        if self.first_counter is None:
            self.first_counter = counter
        elif self.last_counter is not None:
            lost = counter - self.last_counter - 1
            if lost < 0:
                raise RecordingError(f"the counter went from {self.last_counter} to {counter}")
            self.gaps += lost > 0
            self.lost_messages += lost
        self.last_counter = counter

    def summary(self) -> dict[str, Any]:
        """What the provenance says of it."""
        return {
            "rows": self.rows,
            "heartbeats": self.heartbeats,
            "first_counter": self.first_counter,
            "last_counter": self.last_counter,
            "counter_gaps": self.gaps,
            "lost_messages": self.lost_messages,
        }
