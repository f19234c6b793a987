"""The package as a whole: its names, its examples, and what it ships."""

from __future__ import annotations

import doctest
import gzip
import importlib.metadata
import json
import sys
from pathlib import Path

import forepass as fp

PACKAGE = Path(fp.__file__).parent


def test_the_version_is_that_of_the_distribution() -> None:
    assert fp.__version__ == importlib.metadata.version("forepass")


def test_the_metadata_say_what_an_index_shows() -> None:
    metadata = importlib.metadata.metadata("forepass")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert "# Forepass" in (metadata["Description"] or str(metadata.get_payload()))
    assert "Programming Language :: Python :: 3.14" in metadata.get_all("Classifier")
    assert set(metadata.get_all("Provides-Extra")) >= {"all", "cli", "io", "test"}


def test_public_names_are_there_and_documented() -> None:
    for name in fp.__all__:
        assert getattr(fp, name) is not None
        if name[0].isalpha() and not name.isupper():
            assert getattr(fp, name).__doc__, name


def test_the_examples_run() -> None:
    for module in ("forepass.model", "forepass.launch"):
        found = doctest.testmod(sys.modules[module])
        assert (found.failed, found.attempted > 2) == (0, True)


def test_what_must_ship_is_there() -> None:
    data = ("README.md", "sample.jsonl.gz", "report.css", "report.js", "report_figures.js")
    for name in ("py.typed", "_core.pyi", *(f"data/{name}" for name in data)):
        assert (PACKAGE / name).is_file(), name
    lines = gzip.decompress(fp.sample_path().read_bytes()).splitlines()
    assert len(lines) == 3300
    assert {json.loads(line)["metrics"]["worker_id"] for line in lines} == {
        "dense-chat",
        "prefill-only",
    }
    header = fp.sample_path().read_bytes()[:8]
    assert header[4:8] == bytes(4), "no time of packing: the same content gives the same bytes"


def test_files_stay_small() -> None:
    for path in [*PACKAGE.glob("*.py"), *Path(__file__).parent.glob("*.py")]:
        assert len(path.read_text().splitlines()) <= 400, path
