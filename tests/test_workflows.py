"""The workflows of the public repository do what `make` does, with what the project declares."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from steps import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in WORKFLOWS}
PARSED: dict[str, dict[Any, Any]] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]

PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, workflow in PARSED.items():
        for job, content in workflow["jobs"].items():
            yield f"{name}: {job}", content


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for job, content in jobs():
        for step in content.get("steps", []):
            yield job, step


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", MAKEFILE, re.MULTILINE))


def test_every_target_that_a_job_makes_is_there() -> None:
    made = {
        target
        for _, step in steps()
        for target in re.findall(r"\bmake ([\w-]+)", step.get("run", ""))
    }
    assert made <= targets(), made - targets()
    assert {"lint", "rust-test", "python-test", "parity", "docs", "minimum-rust"} <= made


def test_what_make_test_does_is_done_by_jobs() -> None:
    (parts,) = re.findall(r"^test: (.*)$", MAKEFILE, re.MULTILINE)
    runs = " ; ".join(step.get("run", "") for _, step in steps())
    assert len(parts.split()) == 4
    for part in parts.split():
        assert f"make {part}" in runs


def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it() -> None:
    used = [line for text in TEXTS.values() for line in re.findall(r"uses: (.*)", text)]
    assert len(used) > 10
    for action in used:
        assert PINNED.fullmatch(action) or action.startswith("./.github/workflows/"), action
    local = [action.removeprefix("./") for action in used if action.startswith("./")]
    assert all((ROOT / path).is_file() for path in local)


def test_an_action_has_one_commit_everywhere() -> None:
    used = re.findall(r"uses: ([\w/-]+)@(\w+)", "\n".join(TEXTS.values()))
    assert len(dict(used)) == len(set(used))


def test_jobs_may_only_read_and_end_in_time() -> None:
    for name, workflow in PARSED.items():
        assert workflow["permissions"] == {"contents": "read"}, name
    for job, content in jobs():
        assert "uses" in content or 5 <= content["timeout-minutes"] <= 45, job
        allowed = {"id-token": "write"} if job == "release.yml: pypi" else None
        assert content.get("permissions") == allowed, job
    for job, step in steps():
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False, job


def test_no_text_of_an_event_becomes_a_command() -> None:
    for job, step in steps():
        assert "${{" not in step.get("run", ""), job


def test_python_is_tested_in_every_version_that_is_declared() -> None:
    declared = {
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", classifier)
    }
    matrix = PARSED["ci.yml"]["jobs"]["python"]["strategy"]["matrix"]["include"]
    on_one_system = {entry["python"] for entry in matrix if entry["os"] == "ubuntu-24.04"}
    assert on_one_system == declared
    assert {entry["python"] for entry in matrix} == declared
    oldest = min(declared, key=lambda version: int(version.partition(".")[2]))
    assert PROJECT["requires-python"] == f">={oldest}"
    named = {
        version
        for _, step in steps()
        if (version := step.get("with", {}).get("python-version", "${{")).startswith("3")
    }
    assert named <= declared


def test_the_wheel_of_every_system_is_tested_where_it_was_built() -> None:
    built = set(PARSED["ci.yml"]["jobs"]["wheel"]["strategy"]["matrix"]["os"])
    tested = {
        entry["os"] for entry in PARSED["ci.yml"]["jobs"]["python"]["strategy"]["matrix"]["include"]
    }
    assert built == tested | {PARSED["ci.yml"]["jobs"]["windows"]["runs-on"]}


def test_the_oldest_rust_is_that_of_cargo_everywhere() -> None:
    oldest = CARGO["rust-version"]
    assert "cargo +$(MINIMUM_RUST)" in MAKEFILE
    assert "rust-version" in next(
        line for line in MAKEFILE.splitlines() if "MINIMUM_RUST :=" in line
    )
    assert not re.search(r"(\+|install )1\.\d+", "\n".join(TEXTS.values())), "make minimum-rust"
    for page in ("README.md", "CONTRIBUTING.md"):
        assert re.findall(r"Rust (1\.\d+)\+", Path(ROOT, page).read_text()) == [oldest], page


def test_one_job_is_green_only_if_all_others_are() -> None:
    every = PARSED["ci.yml"]["jobs"]
    green = every["green"]
    assert set(green["needs"]) == set(every) - {"green"}
    assert green["if"] == "always()"
    assert green["steps"][0]["env"]["RESULTS"] == "${{ join(needs.*.result, ' ') }}"
    assert 'test "$result" = success || exit 1' in green["steps"][0]["run"]


def test_dependabot_looks_after_what_is_used() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    ecosystems = {update["package-ecosystem"] for update in updates}
    assert ecosystems == {"github-actions", "cargo", "pip"}
