"""The engine's process as the recorder sees it: started, asked, and ended whatever happens."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recorder.scenarios import Scenario
from recorder.trace import RecordingError

ENGINE = Path(__file__).with_name("engine.py")
END_S = 10.0
LAST_LINES = 15
COLOUR = re.compile(r"\x1b\[[\d;]*m")
ENVIRONMENT = {
    # One thread: several wait for one another, and a step takes twenty times as long when anything
    # else takes the core of one of them. numba, which looks n-grams up, has threads of its own.
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


class EngineProcess:
    """An engine that runs one scenario, out of reach of Ctrl-C, which is the recorder's."""

    def __init__(self, scenario: Scenario, seed: int, seconds: float, port: int) -> None:
        refuse_busy(port)
        self._folder = tempfile.TemporaryDirectory(prefix="recorder-")
        folder = Path(self._folder.name)
        (folder / "config.json").write_text(json.dumps(scenario.model))
        self._log_path = folder / "log"
        status, child_status = os.pipe()
        self._status = os.fdopen(status, "rb", buffering=0)
        self._said = b""
        arguments = [scenario.name, seed, seconds, folder, child_status]
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, ENGINE, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[child_status],
                start_new_session=True,
                env={
                    **os.environ,
                    **ENVIRONMENT,
                    "DYN_FORWARDPASS_METRIC_PORT": str(port),
                    "DYN_FPM_WORKER_ID": scenario.name,
                    "VLLM_CACHE_ROOT": str(folder),
                    "TMPDIR": str(folder),
                },
            )
        os.close(child_status)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(patience_s=END_S if error is None else 0.0)

    def start_load(self) -> None:
        """Let it begin with the load."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"g")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self.died() from None

    def said(self, timeout_s: float) -> dict[str, Any] | None:
        """The next thing that it says of itself, or nothing in this time; an error if it died."""
        deadline_s = time.monotonic() + timeout_s
        while b"\n" not in self._said:
            left_s = max(deadline_s - time.monotonic(), 0.0)
            if not select.select([self._status], [], [], left_s)[0]:
                return None
            more = self._status.read(4096)
            if not more:
                raise self.died()
            self._said += more
        line, self._said = self._said.split(b"\n", 1)
        said: dict[str, Any] = json.loads(line)
        return said

    def died(self) -> RecordingError:
        """The error that says how it ended, and its last lines."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            code = None
        ending = f"exit code {code}" if code is not None else "it closed its status"
        return RecordingError(f"the engine ended early ({ending}){self.last_lines()}")

    def last_lines(self) -> str:
        """The end of its log, to follow a message."""
        text = COLOUR.sub("", self._log_path.read_text(errors="replace"))
        lines = [line.rstrip() for line in text.splitlines() if line.strip()][-LAST_LINES:]
        return "; its last lines:\n  " + "\n  ".join(lines) if lines else "; it printed nothing"

    def end(self, patience_s: float) -> None:
        """Ask it to end, and then see to it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        for number, wait_s in ((None, patience_s), (signal.SIGTERM, END_S), (signal.SIGKILL, None)):
            if number is not None and self._process.poll() is None:
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                continue
        self._status.close()
        self._folder.cleanup()


def refuse_busy(port: int) -> None:
    """An error if something listens on the port that the engine is to publish on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise RecordingError(
                f"port {port} cannot be had ({error.strerror}): end what listens there, "
                "or name another with --port"
            ) from None
