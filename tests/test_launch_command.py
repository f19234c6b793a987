"""The command `forepass launch` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import forepass as fp
from conftest import Command
from test_command import BAD_INPUT, DONE, USAGE, ended
from test_launch import launch

NGRAM = '{"method": "ngram", "num_speculative_tokens": 3}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(launch()))
    return path


def test_a_launch_is_explained(command: Command, file: Path) -> None:
    run = ended(command("launch", file), DONE)
    lines = run.stdout.splitlines()
    assert lines[0] == "accepted"
    told = {line[:21].strip(): line[21:].split() for line in lines[4:] if line}
    assert told["depth"][0] == "3"
    assert told["decode width"][0] == "4"
    assert " ".join(told["acceptance rates"]).startswith("0.8, 0.6, 0.4 ")
    # 1 + 0.8 + 0.8 * 0.6 + 0.8 * 0.6 * 0.4
    assert told["tokens per step"] == ["2.472"]
    assert told["num gpu blocks"][:2] == ["4096", "(explicit)"]
    assert "engine.timing_model.config.speculation.params.depth" in run.stdout
    assert run.stderr == ""


def test_json_has_the_standard_output_to_itself(
    command: Command, file: Path, tmp_path: Path
) -> None:
    run = ended(command("launch", file, "--json", "-"), DONE)
    assert json.loads(run.stdout) == fp.resolve_launch(file).to_dict()
    target = tmp_path / "report.json"
    assert ended(command("launch", file, "--json", target), DONE).stdout.startswith("accepted")
    assert json.loads(target.read_text())["schema"] == "forepass.launch.v1"
    over = ended(command("launch", file, "--json", file), BAD_INPUT)
    assert "to be read" in over.stderr


def test_a_refused_launch_exits_1_with_code_and_path(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "launch.yaml"
    path.write_text("engine:\n  aic_nextn: 9\n")
    run = ended(command("launch", path), BAD_INPUT)
    assert run.stderr.startswith("forepass: E_ENGINE at engine.aic_nextn: ")
    assert run.stdout.startswith("refused")
    run = ended(command("launch", path, "--json", "-"), BAD_INPUT)
    assert json.loads(run.stdout)["error"]["code"] == "E_ENGINE"


@pytest.mark.parametrize("text", [json.dumps(launch()), "engine: {aic_nextn: 3}\n"])
def test_a_launch_comes_from_the_standard_input(text: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "forepass", "launch", "-", "--json", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(ended(run, DONE).stdout)["depth"] == 3


def test_the_options_of_an_engine_are_explained(command: Command, tmp_path: Path) -> None:
    words: list[Any] = ["launch", "--engine", "vllm"]
    run = ended(command(*words, "--", "--speculative-config", NGRAM), DONE)
    assert "--speculative-config.num_speculative_tokens" in run.stdout
    odd = ("--", "--speculative-config", NGRAM, "--odd", "1")
    assert "warning: --odd: " in ended(command(*words, *odd), DONE).stdout
    run = ended(command(*words, "--strict", *odd), BAD_INPUT)
    assert run.stderr.startswith("forepass: E_PARAM at --odd: ")
    path = tmp_path / "options.yaml"
    path.write_text("speculative_config: {decoding_type: MTP, max_draft_len: 3}\n")
    run = ended(command("launch", "--engine", "trtllm", path), BAD_INPUT)
    assert "E_BACKEND at speculative_config.decoding_type" in run.stderr
    path.with_suffix(".json").write_text('{"a": 1, "a": 2}')
    run = ended(command("launch", "--engine", "trtllm", path.with_suffix(".json")), BAD_INPUT)
    assert "E_PARAM at a" in run.stderr


def test_a_command_line_in_one_word_is_taken_apart(command: Command) -> None:
    words = ["launch", "--engine", "vllm", "--json", "-", "--"]
    for line in (
        f"vllm serve a/b --speculative-config '{NGRAM}'",
        f"--speculative-config '{NGRAM}'",
        f"vllm serve a/b --speculative-config '{NGRAM}' --config engine.yaml",
    ):
        assert json.loads(ended(command(*words, line), DONE).stdout)["depth"] == 3


def test_the_matrix_tells_schemes_and_methods(command: Command) -> None:
    run = ended(command("launch", "--matrix"), DONE)
    cells = [line.split() for line in run.stdout.splitlines()]
    assert ["ngram", "yes", "no", "no"] in cells
    assert ["sglang", "UNO", "-", "not", "known", "before", "it", "runs", "E_KIND"] in cells
    document = json.loads(ended(command("launch", "--matrix", "--json", "-"), DONE).stdout)
    assert document["schemes"]["mtp"] == ["vllm", "sglang"]
    assert len(document["methods"]) == len(fp.engine_methods())


@pytest.mark.parametrize(
    "words",
    [
        ["launch"],
        ["launch", "a.json", "b.json"],
        ["launch", "a.json", "--strict"],
        ["launch", "a.json", "--engine", "tgi"],
        ["launch", "a.json", "--matrix"],
        ["launch", "--odd"],
    ],
)
def test_wrong_usage_exits_2(command: Command, words: list[str]) -> None:
    assert "forepass launch" in ended(command(*words), USAGE).stderr


def test_a_file_that_is_not_there_is_named(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "no.json"
    assert f"{path}: No such file" in ended(command("launch", path), BAD_INPUT).stderr
