"""The recordings that are in the checkout are what is said of them."""

import gzip
import hashlib
import json
from io import BytesIO
from pathlib import Path

import pytest

from recorder.trace import Trace
from steps import ROOT

RECORDINGS = sorted((ROOT / "benchmarks" / "recordings").glob("*.jsonl.gz"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_a_committed_recording_is_what_its_provenance_says(path: Path) -> None:
    about = json.loads(path.with_name(path.name.replace(".jsonl.gz", ".meta.json")).read_text())
    assert about["trace"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    trace = Trace(BytesIO(), about["scenario"])
    with gzip.open(path, "rt") as lines:
        for line in map(json.loads, lines):
            trace.add(line["received_at_ns"], line["metrics"])
    assert {"name": path.name, "sha256": about["trace"]["sha256"], **trace.summary()} == about[
        "trace"
    ]


def test_the_evidence_is_of_the_committed_recordings() -> None:
    evidence = json.loads((ROOT / "benchmarks" / "evidence" / "recorded.json").read_text())
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in RECORDINGS]
    assert [entry["sha256"] for entry in evidence["inputs"]] == hashes
