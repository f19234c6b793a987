"""Threads share a model, and a replay leaves the interpreter to others."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import forepass as fp
from steps import decode_step, straight_line

THREADS = 8
SECONDS = 2.0


def test_threads_learn_and_predict_on_one_model() -> None:
    model = fp.ForwardPassModel(max_observations=32)
    model.observe_batch(straight_line())
    start = threading.Barrier(THREADS)
    columns = {"num_decode_requests": np.arange(1, 200), "sum_decode_kv_tokens": np.arange(1, 200)}

    def work(seed: int) -> int:
        learned = 0
        start.wait()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for n in range(1, 20):
                step = decode_step(n, 997 * n + seed, 0.010 + 0.001 * n)
                learned += model.observe(step) == "learned"
                assert model.predict(step) is not None
            model.observe_batch([decode_step(n, n, 0.01) for n in range(1, 6)])
            learned += 5
            assert not np.isnan(model.predict_batch(columns)).any()
            assert model.diagnostics()["ready"]
            assert model.copy().forecast(decode_step(3, 3)).source == "linear"
        return learned

    with ThreadPoolExecutor(THREADS) as pool:
        learned = sum(pool.map(work, range(THREADS)))
    counts = model.diagnostics()
    assert counts["accepted_observations"] == learned + 12
    assert counts["retained_observations"] == 32


def test_others_run_while_a_replay_does() -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    results = [fp.replay() for _ in range(5)]
    done.set()
    other.join()
    assert ticks > len(results)
