"""What the engine publishes, received message by message until its load is over."""

import time
from typing import Any

from recorder.process import EngineProcess
from recorder.trace import RecordingError, Trace

# The publisher sends a heartbeat each second when there is nothing else to send.
SILENCE_S = 30.0
SETTLED_S = 0.5


class Subscription:
    """A subscription to the engine's port."""

    def __init__(self, port: int) -> None:
        import zmq

        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.subscribe(b"")
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    def next(self, timeout_s: float) -> tuple[int, dict[str, Any]] | None:
        """The next message and when it came, in nanoseconds since 1970, or nothing in this time."""
        import msgspec

        if not self._socket.poll(timeout_s * 1000):
            return None
        received_at_ns = time.time_ns()
        *_topic_and_sequence, payload = self._socket.recv_multipart()
        try:
            return received_at_ns, msgspec.msgpack.decode(payload, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise RecordingError(
                f"a message is no forward-pass metrics ({error}): "
                "another program publishes on this port"
            ) from None

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()


def receive(trace: Trace, subscription: Subscription, engine: EngineProcess) -> dict[str, Any]:
    """Write every message until the engine is through with its load; what it says of that."""
    heard_s = time.monotonic()
    through_s = 0.0
    said: dict[str, Any] | None = None
    started = False
    while True:
        message = subscription.next(timeout_s=0.5)
        now_s = time.monotonic()
        if message is not None:
            heard_s = now_s
            trace.add(*message)
            if not started:
                # The subscription stands: no message of the load will go unheard.
                engine.start_load()
                started = True
            elif said and now_s - through_s > SETTLED_S and message[1]["wall_time"] == 0.0:
                # A heartbeat after the last step: there is nothing behind it.
                return said
        elif now_s - heard_s > SILENCE_S:
            raise RecordingError(
                f"no message arrived within {SILENCE_S:.0f} s{engine.last_lines()}"
            )
        if said is None and (said := engine.said(timeout_s=0.0)):
            through_s = now_s
