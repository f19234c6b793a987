"""The pages: their tables are current, and their examples run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import forepass as fp
from conftest import Command
from forepass._core import LAUNCH_CODES
from steps import ROOT

LAUNCH_PAGE = (ROOT / "docs" / "launch.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", LAUNCH_PAGE, re.DOTALL)


def test_the_launch_table_is_that_of_the_frozen_matrix() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "launch_matrix.py"))["page"]
    assert written(LAUNCH_PAGE) == LAUNCH_PAGE, "run python docs/launch_matrix.py --write"
    assert written(LAUNCH_PAGE.replace("| accepted |", "| E_KIND |", 1)) == LAUNCH_PAGE


def test_the_api_page_is_what_the_docstrings_say() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "api_reference.py"))["page"]()
    committed = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert written == committed, "run `make docs`"
    for name in fp.__all__:
        assert f"`{name}`" in committed


def test_the_codes_are_listed_in_the_order_of_the_checks() -> None:
    listed = re.findall(r"^\| `(E_\w+)` \|", LAUNCH_PAGE, re.MULTILINE)
    assert tuple(listed) == LAUNCH_CODES


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_launch_page_run(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(example, "docs/launch.md", "exec"), {})
    assert len(EXAMPLES) == 3


def test_the_readme_shows_what_the_launch_command_prints(command: Command) -> None:
    shown = re.search(
        r"```\n\$ forepass launch (\S+)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert shown is not None
    run = command("launch", Path(ROOT, shown[1]))
    assert (run.returncode, run.stdout) == (0, shown[2])
