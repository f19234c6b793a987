"""The peer of `reading.py`: decodes each gzipped line of a trace with msgspec, and counts them."""

import gzip
import sys

import msgspec


class Queued(msgspec.Struct):
    """What waits."""

    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0


class Scheduled(Queued):
    """What ran."""

    sum_prefill_kv_tokens: int = 0


class Metrics(msgspec.Struct):
    """One forward pass of one rank."""

    version: int
    worker_id: str
    dp_rank: int
    counter_id: int
    wall_time: float
    scheduled_requests: Scheduled
    queued_requests: Queued


class Message(msgspec.Struct):
    """One line."""

    received_at_ns: int
    metrics: Metrics


def main() -> None:
    """Decode all lines of the file that is named."""
    decode = msgspec.json.Decoder(Message).decode
    with gzip.open(sys.argv[1], "rb") as lines:
        print(sum(decode(line).metrics.version for line in lines))


if __name__ == "__main__":
    main()
