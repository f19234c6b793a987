"""Writes `trtllm_stats.jsonl`: statistics as TensorRT-LLM gives them, of an engine made up.

`python docs/trtllm_stats.py` prints it, with `--write` keeps it. An iteration takes

    6 ms + 0.011 ms a prompt token + 3e-6 ms a pair of prompt token and what it attends to
         + 0.09 ms a decode + 1.2e-5 ms a KV token that a decode reads,

give or take 4 %, and two of them eight times as long. What is not read, such as `kvCacheStats`, is
left out.
"""

import json
import random
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

STATS = Path(__file__).parent / "trtllm_stats.jsonl"

ITERATIONS = 280
SPIKES = {97, 251}
KINDS = {"decode": 11, "mixed": 10, "prefill": 10, "idle": 1}


def iterations(seed: int = 7) -> Iterator[dict[str, Any]]:
    """The statistics of each iteration; the same for the same seed."""
    draw = random.Random(seed)  # noqa: S311 (nothing secret)
    clock = datetime(2026, 11, 30, 12)
    before_ms = 0.0
    for number in range(1, ITERATIONS + 1):
        (kind,) = draw.choices(list(KINDS), list(KINDS.values()))
        prefills = draw.randint(1, 4) if kind in ("prefill", "mixed") else 0
        prompt = prefills * draw.randint(60, 500)
        cached = prefills * draw.choice((0, 0, 64, 256))
        decodes = draw.randint(1, 32) if kind in ("decode", "mixed") else 0
        kv = decodes * draw.randint(300, 3000)
        queued = draw.choice((0, 0, 0, 1, 2)) if kind != "idle" else 0
        pairs = 0.0 if prefills == 0 else prompt * (cached + prompt / 2) / prefills
        latency_ms = 6 + 0.011 * prompt + 3e-6 * pairs + 0.09 * decodes + 1.2e-5 * kv
        latency_ms *= draw.uniform(0.96, 1.04) * (8 if number in SPIKES else 1)
        latency_ms = 0.0 if kind == "idle" else round(latency_ms, 3)
        host_ms = round(draw.uniform(0.8, 1.4), 3)
        clock += timedelta(milliseconds=latency_ms + host_ms)
        yield {
            "timestamp": f"{clock:%Y-%m-%d %H:%M:%S}",
            "iter": number,
            "iterLatencyMS": round(latency_ms + host_ms, 3),
            "hostStepTimeMS": host_ms,
            "prevDeviceStepTimeMS": before_ms,
            "gpuForwardTimeMS": latency_ms,
            "numActiveRequests": prefills + decodes,
            "schedulerMode": "overlap",
            "inflightBatchingStats": {
                "numScheduledRequests": prefills + decodes,
                "numContextRequests": prefills,
                "numGenRequests": decodes,
                "numPausedRequests": 0,
                "numCtxTokens": prompt,
                "numCtxKvTokens": cached,
                "numGenKvTokens": kv,
                "numQueuedContextRequests": queued,
                "numQueuedCtxTokens": 300 * queued,
            },
        }
        before_ms = latency_ms


def lines() -> str:
    """The whole file, an iteration a line."""
    return "".join(f"{json.dumps(found, separators=(',', ':'))}\n" for found in iterations())


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        STATS.write_text(lines(), encoding="utf-8")
    else:
        print(lines(), end="")
