"""How fast a long trace is replayed by the command, and in how much memory.

A million gzipped JSON lines, drawn with a seed from the bundled recording, are replayed with the
line on two cores and with the progress bar on a terminal; beside it, Python reads and decodes the
same file with msgspec, line by line, and does nothing else with it. They take turns, each in a
process of its own.

Run `make reading`, or `python benchmarks/reading.py --write` where forepass[cli] and msgspec are.
"""

import gzip
import hashlib
import json
import os
import pty
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_file import SAMPLE, Body, Evidence, fit_config

LINES = (250_000, 500_000, 1_000_000)
ROUNDS = 3
CORES = 2
SEED = 20_260_101
BAR = "━".encode()


def messages(count: int) -> Iterator[bytes]:
    """Lines as a subscriber writes them: the recording's first worker, shuffled, with noise."""
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        recorded = [json.loads(line)["metrics"] for line in lines]
    worker_id = recorded[0]["worker_id"]
    recorded = [metrics for metrics in recorded if metrics["worker_id"] == worker_id]
    rests = [
        json.dumps({key: metrics[key] for key in ("scheduled_requests", "queued_requests")},
                   separators=(",", ":"))[1:]
        for metrics in recorded
    ]  # fmt: skip
    draw = random.Random(SEED)
    at_ns = 1_796_029_100_000_000_000
    for counter in range(count):
        index = draw.randrange(len(recorded))
        wall_time = recorded[index]["wall_time"] * draw.lognormvariate(0.0, 0.05)
        at_ns += int(wall_time * 1e9) + 50_000
        yield (
            f'{{"received_at_ns":{at_ns},"metrics":{{"version":1,"worker_id":"{worker_id}",'
            f'"dp_rank":0,"counter_id":{counter},"wall_time":{wall_time!r},{rests[index]}}}\n'
        ).encode()


def write_trace(path: Path, count: int) -> str:
    """Writes so many lines, gzipped, and returns the hash of their text."""
    text = hashlib.sha256()
    with gzip.GzipFile(path, "wb", compresslevel=6, mtime=0) as file:
        for line in messages(count):
            text.update(line)
            file.write(line)
    return text.hexdigest()


def run(command: list[str]) -> dict[str, Any]:
    """Runs a command with a terminal as its error output: its times, its memory, what it drew."""
    terminal, end = pty.openpty()
    start = time.perf_counter()
    pid = os.fork()  # what `subprocess` starts begins with the peak of this process's memory
    if pid == 0:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(end, 2)
        os.execv(command[0], command)
    os.close(end)
    drawn = bytearray()
    try:
        while piece := os.read(terminal, 1 << 16):
            drawn += piece
    except OSError:  # how the system says that nobody writes to the terminal any more
        pass
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.perf_counter() - start
    os.close(terminal)
    if status != 0:
        sys.exit(f"{' '.join(command[:4])} failed:\n{drawn.decode(errors='replace')}")
    in_kib = 1024 if sys.platform == "darwin" else 1
    return {
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / in_kib / 1024,
        "bar_drawn": BAR in drawn,
    }


def middle(runs: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """Medians over rounds."""
    return {
        "rows_per_s": count / statistics.median(one["wall_s"] for one in runs),
        "rows_per_cpu_s": count / statistics.median(one["cpu_s"] for one in runs),
        "peak_mib": statistics.median(one["peak_mib"] for one in runs),
    }


def replayed(count: int, folder: Path) -> dict[str, Any]:
    """One length of trace, by both readers in turn."""
    path = folder / "trace.jsonl.gz"
    text_sha256 = write_trace(path, count)
    replay = [sys.executable, "-m", "forepass", "replay", str(path), "--fit", "linear"]
    reader = [sys.executable, str(Path(__file__).with_name("msgspec_reader.py")), str(path)]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(run(replay))
        theirs.append(run(reader))
    if not all(one["bar_drawn"] for one in ours):
        sys.exit("the replay has drawn no progress bar")
    ratios = [other["wall_s"] / own["wall_s"] for own, other in zip(ours, theirs, strict=True)]
    return {
        "lines": count,
        "text_sha256": text_sha256,
        "gzipped_bytes": path.stat().st_size,
        "replay": middle(ours, count),
        "msgspec": middle(theirs, count),
        "median_ratio": statistics.median(ratios),
    }


def measure(_: list[Path]) -> Body:
    """Traces of several lengths, the slowest first."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for count in LINES:
            results.append(replayed(count, Path(folder)))
            print(json.dumps(results[-1], indent=1))
    results.sort(key=lambda result: result["replay"]["rows_per_s"])
    return {
        "configs": {"linear": fit_config("linear")},
        "trace": {"drawn_from": "data/sample.jsonl.gz", "seed": SEED, "gzip_level": 6},
        "cores": CORES,
        "peer": "gzip.open and msgspec.json.Decoder of typed structs, line by line",
        "results": results,
    }


READING = Evidence("reading", "make reading", lambda: [SAMPLE], measure)

if __name__ == "__main__":
    READING.main()
