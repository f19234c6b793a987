"""The package as a whole: its types, its style, and what it ships."""

from __future__ import annotations

import doctest
import gzip
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import forepass as fp
from steps import ROOT

PACKAGE = Path(fp.__file__).parent


def passes(*arguments: str) -> None:
    tool = arguments[0].partition(".")[0]
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    run = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_stub_is_what_the_core_has() -> None:
    passes("mypy.stubtest", "forepass._core")


def test_the_package_is_strictly_typed() -> None:
    passes("mypy", "--strict", "python/forepass")


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_the_style_is_kept(check: list[str]) -> None:
    passes("ruff", *check, "python", "tests")


def test_the_version_is_that_of_the_distribution() -> None:
    assert fp.__version__ == importlib.metadata.version("forepass")


def test_public_names_are_there_and_documented() -> None:
    for name in fp.__all__:
        assert getattr(fp, name) is not None
        if name[0].isalpha() and not name.isupper():
            assert getattr(fp, name).__doc__, name


def test_the_examples_run() -> None:
    found = doctest.testmod(sys.modules["forepass.model"])
    assert (found.failed, found.attempted > 2) == (0, True)


def test_what_must_ship_is_there() -> None:
    for name in ("py.typed", "_core.pyi", "data/README.md", "data/sample.jsonl.gz"):
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
