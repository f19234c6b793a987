"""Accuracy over the recordings in benchmarks/recordings, which are in every checkout.

Run `make recorded`, or `python benchmarks/recorded.py --write` where forepass is installed.
"""

from pathlib import Path

from accuracy import measure
from evidence_file import ROOT, Evidence


def inputs() -> list[Path]:
    """The recordings of this checkout, in the order of their names."""
    return sorted((ROOT / "benchmarks" / "recordings").glob("*.jsonl.gz"))


RECORDED = Evidence("recorded", "make recorded", inputs, measure)

if __name__ == "__main__":
    RECORDED.main()
