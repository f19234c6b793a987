"""Speed as ratios of two things in one run: updates, launches, Python calls, batches, a replay.

Run `make bench`, or `python benchmarks/speed.py --write` where forepass and the peer are installed.
"""

import gzip
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import forepass
from evidence_file import ROOT, SAMPLE, Body, Evidence, fit_config, recordings

ROUNDS = 15


def steps() -> list[dict[str, Any]]:
    """The iterations with work of the bundled recording, as records in dictionaries."""
    with gzip.open(forepass.sample_path(), "rt") as lines:
        records = [json.loads(line)["metrics"] for line in lines]
    return [record for record in records if record["wall_time"] > 0]


def microseconds(work: Callable[[], None], count: int) -> float:
    """Time of one of `count` things that `work` does."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e6 / count


def ratio(slow: list[float], fast: list[float]) -> dict[str, float]:
    """Medians, and the median of the ratios of alternating rounds."""
    return {
        "median_ratio": statistics.median(s / f for s, f in zip(slow, fast, strict=True)),
        "slow_us": statistics.median(slow),
        "fast_us": statistics.median(fast),
    }


def rust_benchmark(name: str, *arguments: str) -> dict[str, Any]:
    """The outcome of a benchmark of the crate."""
    command = ["cargo", "bench", "--quiet", "--package", "forepass", "--bench", name]
    output = subprocess.run(
        [*command, "--", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    document: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return document


def fit_updates(traces: list[Path]) -> Body:
    """(e) Spline and adaptive fit against the line over all recordings, and a knot search."""
    document = rust_benchmark("spline", *map(str, traces))
    document["traces"].sort(key=lambda trace: -trace["auto_over_linear"])
    for fit in ("spline", "spline_periodic", "auto"):
        ratios = [trace[f"{fit}_over_linear"] for trace in document["traces"]]
        if ratios:
            document[f"median_{fit}_over_linear"] = statistics.median(ratios)
    return document


def peer_model() -> Any:
    """The peer's regression, cold."""
    from aiconfigurator_core.sdk import RustForwardPassPerfModel

    return RustForwardPassPerfModel.from_regression({})


def python_calls(records: list[dict[str, Any]]) -> tuple[dict[str, Any], float]:
    """(b) Learning and predicting one iteration given as a dict, against the peer."""
    ours: list[float] = []
    peers: list[float] = []
    for _ in range(ROUNDS):
        model, peer = forepass.ForwardPassModel(worker_type="aggregated"), peer_model()

        def own_calls(model: forepass.ForwardPassModel = model) -> None:
            for record in records:
                model.predict(record)
                model.observe(record)

        def peer_calls(peer: Any = peer) -> None:
            for record in records:
                peer.estimate_forward_pass_time_ms(record)
                peer.tune_with_fpms([record])

        ours.append(microseconds(own_calls, len(records)))
        peers.append(microseconds(peer_calls, len(records)))
    return {"rows": len(records), **ratio(peers, ours)}, statistics.median(peers)


def batch_rows(records: list[dict[str, Any]], peer_us: float) -> dict[str, Any]:
    """(c) A row of predict_batch, against the peer's call of (b)."""
    model = forepass.ForwardPassModel(worker_type="aggregated")
    model.observe_batch(records)
    names = ("num_prefill_requests", "sum_prefill_tokens", "sum_prefill_kv_tokens",
             "num_decode_requests", "sum_decode_kv_tokens")  # fmt: skip
    scheduled = [record["scheduled_requests"] for record in records]
    columns = {
        name: np.tile(np.array([work[name] for work in scheduled], dtype=np.int64), 50)
        for name in names
    }
    rows = len(columns[names[0]])
    times = [microseconds(lambda: model.predict_batch(columns), rows) for _ in range(ROUNDS)]
    row_us = statistics.median(times)
    return {"rows": rows, "row_us": row_us, "peer_call_us": peer_us, "ratio": peer_us / row_us}


def whole_replay(rows: int = 200_000) -> dict[str, Any]:
    """(d) From a gzipped JSON-lines file to a finished replay, against a loop in Python."""
    with gzip.open(forepass.sample_path(), "rb") as lines:
        text = lines.read()
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "trace.jsonl.gz"
    copies = -(-rows // text.count(b"\n"))
    path.write_bytes(gzip.compress(text * copies, compresslevel=6, mtime=0))
    rows = copies * text.count(b"\n")

    def in_rust() -> None:
        forepass.replay(path, fits=["linear"], baselines=False, threads=1)

    def in_python() -> None:
        model = forepass.ForwardPassModel(worker_type="aggregated")
        errors = []
        with gzip.open(path, "rb") as lines:
            for line in lines:
                record = json.loads(line)["metrics"]
                predicted_ms = model.predict(record)
                if model.observe(record) == "learned" and predicted_ms is not None:
                    observed_ms = 1000 * record["wall_time"]
                    errors.append(abs(predicted_ms - observed_ms) / observed_ms)
        statistics.fmean(errors)

    rust, python = [], []
    for _ in range(3):
        rust.append(microseconds(in_rust, rows))
        python.append(microseconds(in_python, rows))
    folder.cleanup()
    return {"rows": rows, "rows_per_s": 1e6 / statistics.median(rust), **ratio(python, rust)}


def measure(_: list[Path]) -> Body:
    """What can be measured without recordings."""
    records = steps()
    calls, peer_us = python_calls(records)
    results = {
        "recursive_update_against_batch_refit": rust_benchmark("recursive"),
        "launch_against_parsing_its_json": rust_benchmark("launch"),
        "python_predict_and_observe_against_peer": {
            "peer": "aiconfigurator 0.12.0 RustForwardPassPerfModel.from_regression({})",
            **calls,
        },
        "predict_batch_row_against_peer_call": batch_rows(records, peer_us),
        "replay_against_python_loop": whole_replay(),
    }
    return {"configs": {"linear": fit_config("linear")}, "results": results}


def measure_fits(traces: list[Path]) -> Body:
    """What rows cost on each recording, dearest first."""
    fits = ("linear", "spline", "spline-periodic", "auto")
    configs = {fit: fit_config(fit) for fit in fits}
    return {"configs": configs, "results": fit_updates(traces)}


SPEED = Evidence("speed", "make bench", lambda: [SAMPLE], measure)
FIT_SPEED = Evidence("fit_speed", "make bench", recordings, measure_fits)

if __name__ == "__main__":
    SPEED.main()
    FIT_SPEED.main()
