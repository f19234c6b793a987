"""The engine of one recording, in a process of its own: `engine.py NAME SEED SECONDS MODEL STATUS`.

It builds the engine, says so on the descriptor STATUS, waits for a line on standard input, runs the
load, says what it did, and ends when standard input closes, as it also does when its parent dies.
"""

import json
import os
import select
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from recorder.load import Request
from recorder.scenarios import ENGINE, SCENARIOS, Scenario

IDLE_SLEEP_S = 0.01


def build(scenario: Scenario, seed: int, model: str) -> Any:
    """An engine in this process, whose model has random weights and a configuration alone."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    arguments = EngineArgs(model=model, seed=seed, **ENGINE, **scenario.engine)
    return LLMEngine.from_engine_args(arguments)


def resolved(engine: Any) -> dict[str, Any]:
    """What the engine made of its arguments and the machine."""
    import torch

    config = engine.vllm_config
    return {
        "async_scheduling": config.scheduler_config.async_scheduling,
        "kv_cache_blocks": config.cache_config.num_gpu_blocks,
        "kv_cache_block_tokens": config.cache_config.block_size,
        "prefix_caching": config.cache_config.enable_prefix_caching,
        "torch": torch.__version__,
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch_threads": torch.get_num_threads(),
    }


def parent_is_gone() -> bool:
    """Whether standard input was closed."""
    readable, _, _ = select.select([0], [], [], 0.0)
    return bool(readable) and not os.read(0, 1)


def run(engine: Any, requests: list[Request], seconds: float) -> dict[str, int]:
    """Submit the requests as they arrive and step the engine until the time is over."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    waiting = deque(enumerate(requests))
    submitted = finished = output_tokens = 0
    idle = False
    started_s = time.monotonic()
    while (now_s := time.monotonic() - started_s) < seconds and not parent_is_gone():
        while waiting and waiting[0][1].arrival_s <= now_s:
            number, request = waiting.popleft()
            length = request.output_tokens
            parameters = SamplingParams(
                temperature=0.0,
                min_tokens=length,
                max_tokens=length,
                ignore_eos=True,
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            engine.add_request(str(number), {"prompt_token_ids": request.prompt}, parameters)
            submitted += 1
        if engine.has_unfinished_requests():
            idle = False
        elif idle:
            time.sleep(IDLE_SLEEP_S)
            continue
        else:
            # One empty step tells the scheduler of the pause, which the next step would else
            # report as its own time.
            idle = True
        for output in engine.step():
            finished += 1
            output_tokens += len(output.outputs[0].token_ids)
    return {
        "submitted": submitted,
        "finished": finished,
        "output_tokens_of_finished": output_tokens,
    }


def main() -> None:
    """Serve one recording."""
    name, seed, seconds, model, status = sys.argv[1:]
    scenario = SCENARIOS[name]
    requests = scenario.load.requests(int(seed), float(seconds), scenario.model["vocab_size"])
    with os.fdopen(int(status), "w", buffering=1) as say:
        engine = build(scenario, int(seed), model)
        print(json.dumps(resolved(engine)), file=say)
        if os.read(0, 1):
            print(json.dumps(run(engine, requests, float(seconds))), file=say)
            os.read(0, 1)
        engine.engine_core.shutdown()


if __name__ == "__main__":
    main()
