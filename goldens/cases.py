"""What is frozen: each fit on the bundled recording and on seeded streams; the launch matrix."""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forepass as fp

GOLDENS = Path(__file__).resolve().parent
LAUNCH_MATRIX = GOLDENS / "launch_matrix.json"

FORECAST_EVERY = 100
"""Every so many rows the forecast made before the row is learned is frozen."""

LEVEL = 0.9

Record = dict[str, Any]
Iteration = Record | list[Record]

FITS: dict[str, dict[str, Any]] = {
    "linear": {"kind": "linear"},
    "spline": {"kind": "spline"},
    "spline-periodic": {"kind": "spline", "spline": {"search": {"kind": "periodic"}}},
    "auto": {"kind": "auto"},
    "linear-relative": {"kind": "linear", "weighting": "relative"},
    "linear-huber": {"kind": "linear", "huber": 0.7},
    "linear-tracked": {"kind": "linear", "level_tracking": True},
    "spline-robust": {"kind": "spline", "weighting": "relative", "huber": 0.7},
}


@dataclass(frozen=True)
class Case:
    """A value to freeze, and the bytes that it is of."""

    key: str
    input: str
    content: bytes
    value: Callable[[], Any]

    @property
    def input_sha256(self) -> str:
        """The SHA-256 of the input's bytes, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


class Draws:
    """SplitMix64: the same draws on every machine and in every version of Python."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        mask = 2**64 - 1
        self._state = (self._state + 0x9E3779B97F4A7C15) & mask
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (z ^ (z >> 31)) % bound

    def noise(self) -> float:
        """A factor from 0.95 to 1.05."""
        return 0.95 + self.below(1001) / 10_000


def decode(requests: int, kv_tokens: int) -> Record:
    """A decode step without a time."""
    return {"num_decode_requests": requests, "sum_decode_kv_tokens": kv_tokens}


def prefill(requests: int, tokens: int, kv_tokens: int) -> Record:
    """A prefill step without a time."""
    return {
        "num_prefill_requests": requests,
        "sum_prefill_tokens": tokens,
        "sum_prefill_kv_tokens": kv_tokens,
    }


def decode_line() -> Iterator[Iteration]:
    """400 decode steps whose latency is linear in both features, with 5 % of noise."""
    draws = Draws(1)
    for _ in range(400):
        requests = 1 + draws.below(32)
        kv_tokens = requests * (100 + draws.below(3000))
        ms = (4.0 + 0.05 * requests + 1e-4 * kv_tokens) * draws.noise()
        yield {**decode(requests, kv_tokens), "wall_time": ms / 1000}


def prefill_kink() -> Iterator[Iteration]:
    """600 prefill steps whose price doubles beyond 1024 tokens; every 97th stalls for 2 seconds."""
    draws = Draws(2)
    for row in range(600):
        requests = 1 + draws.below(4)
        tokens = requests * (16 + draws.below(500))
        cached = requests * draws.below(256)
        ms = (8.0 + 0.03 * tokens + 0.03 * max(0, tokens - 1024)) * draws.noise()
        stall_ms = 2000.0 if row % 97 == 40 else 0.0
        yield {**prefill(requests, tokens, cached), "wall_time": (ms + stall_ms) / 1000}


def mixed_drift() -> Iterator[Iteration]:
    """700 steps of two ranks, of all kinds and idle; the level doubles after the first 350."""
    draws = Draws(3)
    for row in range(700):
        requests, tokens = 1 + draws.below(24), 32 + draws.below(480)
        some = decode(requests, requests * (200 + draws.below(2000)))
        fresh = prefill(1, tokens, draws.below(128))
        idle: Record = {}
        ranks = [
            [some, decode(1, 300)],
            [{**some, **fresh}, some],
            [some, fresh],
            [fresh, idle],
            [idle, idle],
        ][(0, 0, 0, 1, 1, 2, 3, 0, 1, 4)[draws.below(10)]]
        work = sum(
            0.1 * rank.get("num_decode_requests", 0) + 0.04 * rank.get("sum_prefill_tokens", 0)
            for rank in ranks
        )
        ms = (5.0 + work) * (1 if row < 350 else 2) * draws.noise() if work else 0.0
        yield [{**rank, "dp_rank": at, "wall_time": ms / 1000} for at, rank in enumerate(ranks)]


STREAMS: dict[str, Callable[[], Iterator[Iteration]]] = {
    "decode-line": decode_line,
    "prefill-kink": prefill_kink,
    "mixed-drift": mixed_drift,
}


def numbers(workers: dict[str, list[Iteration]], fit: dict[str, Any]) -> dict[str, Any]:
    """What a fit comes to: chosen forecasts, and the state after the last row, by worker."""
    return {worker: _of_one_worker(iterations, fit) for worker, iterations in workers.items()}


def _of_one_worker(iterations: list[Iteration], fit: dict[str, Any]) -> dict[str, Any]:
    model = fp.ForwardPassModel(fit=fit)
    forecasts = []
    for row, iteration in enumerate(iterations, start=1):
        if row % FORECAST_EVERY == 0:
            told = model.forecast(iteration, LEVEL)
            names = ("kind", "ms", "source", "reason", "low_ms", "high_ms")
            forecasts.append({"row": row, **{name: getattr(told, name) for name in names}})
        model.observe(iteration)
    state = model.diagnostics()
    state["stores"] = {
        store.pop("workload_kind"): store
        for store in state["stores"]
        if store["accepted_observations"]
    }
    return {"forecasts": forecasts, "state": state}


def sample() -> dict[str, list[Iteration]]:
    """The bundled recording by worker."""
    workers: dict[str, list[Iteration]] = {}
    for line in gzip.decompress(fp.sample_path().read_bytes()).splitlines():
        metrics = json.loads(line)["metrics"]
        workers.setdefault(metrics["worker_id"], []).append(metrics)
    return workers


def cases() -> Iterator[Case]:
    """Everything that is frozen, in the order in which it is written."""
    inputs = {"sample": (sample(), "forepass.sample_path()", fp.sample_path().read_bytes())}
    for name, stream in STREAMS.items():
        iterations = list(stream())
        content = json.dumps(iterations).encode()
        inputs[name] = ({"w": iterations}, f"goldens/cases.py: {name}, as JSON", content)
    for name, (workers, told, content) in inputs.items():
        for fit, options in FITS.items():
            yield Case(
                f"{name}/{fit}",
                told,
                content,
                lambda workers=workers, options=options: numbers(workers, options),
            )
    content = LAUNCH_MATRIX.read_bytes()
    yield Case(
        "launch_matrix",
        "goldens/launch_matrix.json",
        content,
        lambda: {
            "records": len(json.loads(content)["records"]),
            "sha256": hashlib.sha256(content).hexdigest(),
        },
    )
