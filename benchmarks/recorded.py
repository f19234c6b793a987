"""Accuracy over the recordings in benchmarks/recordings, which are in every checkout.

Run `make recorded`, or `python benchmarks/recorded.py --write` where forepass is installed.
"""

from accuracy import keep
from evidence_file import ROOT

RECORDINGS = ROOT / "benchmarks" / "recordings"

if __name__ == "__main__":
    keep("recorded.json", "make recorded", sorted(RECORDINGS.glob("*.jsonl.gz")))
