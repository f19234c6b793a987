"""Readers of the recorded files: each yields the rank records of one file in arrival order."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

from .record import RankRecord

TRACES_VARIABLE = "FOREPASS_TRACES"


def recordings_folder(start: Path) -> Path | None:
    """Folder of the recordings or None: the environment's choice, else `shared/traces` beside an ancestor."""
    chosen = os.environ.get(TRACES_VARIABLE)
    if chosen:
        return Path(chosen) if Path(chosen).is_dir() else None
    for ancestor in start.resolve().parents:
        candidate = ancestor.parent / "shared" / "traces"
        if candidate.is_dir():
            return candidate
    return None


def read_recording(path: Path) -> Iterator[RankRecord]:
    """Yield the records of one gzipped recording, whichever of the three layouts it has."""
    if path.name.endswith(".jsonl.gz"):
        return read_metrics_lines(path)
    with gzip.open(path, "rt", newline="") as lines:
        header = next(csv.reader(lines))
    if "latency_ms" in header:
        return read_vllm_table(path)
    if "wall_time_s" in header:
        return read_tensorrt_table(path)
    raise ValueError(f"{path.name}: no latency_ms and no wall_time_s column")


def read_vllm_table(path: Path) -> Iterator[RankRecord]:
    """Yield records of a table whose `latency_ms` column is in milliseconds."""
    with gzip.open(path, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            yield RankRecord(
                num_prefill_requests=int(row["num_prefill_requests"]),
                sum_prefill_tokens=int(row["sum_prefill_tokens"]),
                sum_prefill_kv_tokens=int(row["sum_prefill_kv_tokens"]),
                num_decode_requests=int(row["num_decode_requests"]),
                sum_decode_kv_tokens=int(row["sum_decode_kv_tokens"]),
                wall_time_s=float(row["latency_ms"]) / 1000.0,
                worker_id=row["worker_id"],
            )


def read_tensorrt_table(path: Path) -> Iterator[RankRecord]:
    """Yield records of a table whose `wall_time_s` column is in seconds and which names no worker."""
    with gzip.open(path, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            yield RankRecord(
                num_prefill_requests=int(row["prefill_requests"]),
                sum_prefill_tokens=int(row["prefill_tokens"]),
                sum_prefill_kv_tokens=int(row["prefill_kv_tokens"]),
                num_decode_requests=int(row["decode_requests"]),
                sum_decode_kv_tokens=int(row["decode_kv_tokens"]),
                wall_time_s=float(row["wall_time_s"]),
            )


def read_metrics_lines(path: Path) -> Iterator[RankRecord]:
    """Yield records of a file with one `{"received_at_ns": …, "metrics": …}` object a line, times in seconds."""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            metrics = json.loads(line)["metrics"]
            scheduled = metrics.get("scheduled_requests", {})
            yield RankRecord(
                num_prefill_requests=scheduled.get("num_prefill_requests", 0),
                sum_prefill_tokens=scheduled.get("sum_prefill_tokens", 0),
                sum_prefill_kv_tokens=scheduled.get("sum_prefill_kv_tokens", 0),
                num_decode_requests=scheduled.get("num_decode_requests", 0),
                sum_decode_kv_tokens=scheduled.get("sum_decode_kv_tokens", 0),
                wall_time_s=metrics.get("wall_time", 0.0),
                worker_id=metrics.get("worker_id", ""),
                version=metrics.get("version", 1),
            )
