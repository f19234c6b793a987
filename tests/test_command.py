"""The command as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forepass as fp
from conftest import Command
from steps import decode_step, straight_line

Trace = Callable[..., Path]
DONE, BAD_INPUT, USAGE = 0, 1, 2


def ended(run: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    assert "Traceback" not in run.stderr + run.stdout
    assert "\x1b" not in run.stderr + run.stdout
    assert run.returncode == code, run.stderr
    return run


def test_it_replays_the_bundled_recording(command: Command) -> None:
    run = ended(command("replay"), DONE)
    assert str(fp.sample_path()) in run.stderr
    lines = run.stdout.splitlines()
    assert "3300 rows (fpm_jsonl)" in lines[0]
    assert lines[2].split() == (
        "fit kind rows eligible coverage MAPE median p90 p99 bias us/row".split()
    )
    fits = [line.split()[0] if line else "" for line in lines[4:]]
    names = ["linear", "auto", "last", "median"]
    assert fits[:16] == [name for name in names for _ in range(4)]
    assert lines[21].startswith("90% intervals")
    assert fits[19:] == ["auto"] * 4


def test_it_is_installed_as_a_script() -> None:
    script = Path(sys.executable).with_name("forepass")
    if not script.exists():
        pytest.skip("the package is not installed with its script")
    run = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"forepass {fp.__version__}\n"


def test_several_inputs_come_worst_first(command: Command, trace: Trace) -> None:
    good = trace(straight_line(40), "good.jsonl")
    bent = [decode_step(n, 1000 * n, 0.001 * n * n) for n in range(1, 41)]
    bad = trace(bent, "bad.jsonl")
    run = ended(command("replay", good, bad, "--warmup", 8, "--no-baselines"), DONE)
    table = run.stdout[run.stdout.index("linear, by input") :]
    assert table.index("bad.jsonl") < table.index("good.jsonl")
    assert "auto, by input" in run.stdout
    assert "last" not in run.stdout.split()


def test_json_has_the_standard_output_to_itself(command: Command, trace: Trace) -> None:
    path = trace([*straight_line(), {"version": 7}])
    run = ended(command("replay", path, "--json", "-", "--by", "worker"), DONE)
    document = json.loads(run.stdout)
    assert document["schema"] == "forepass.replay.v1"
    assert "by_worker" in document["results"][0]
    assert f"{path}:13: " in run.stderr
    looked = json.loads(ended(command("inspect", path, "--json", "-"), DONE).stdout)
    assert looked["schema"] == "forepass.inspect.v1"


def test_files_are_written_where_asked(command: Command, trace: Trace, tmp_path: Path) -> None:
    path, target, csv = trace(straight_line()), tmp_path / "out.json", tmp_path / "out.csv"
    run = ended(command("replay", path, "--json", target, "--predictions", csv), DONE)
    assert json.loads(target.read_text())["inputs"][0]["path"] == str(path)
    assert len(csv.read_text().splitlines()) == 1 + 4 * 12
    assert "coverage" in run.stdout


def test_configurations_compete_under_the_names_of_their_files(
    command: Command, trace: Trace, tmp_path: Path
) -> None:
    config = tmp_path / "careful.json"
    config.write_text(json.dumps(fp.ForwardPassModel(min_observations=20).config))
    equal = tmp_path / "a=b.json"
    equal.write_text(config.read_text())
    configs = [f"--config={given}" for given in (config, f"mine={config}", equal)]
    run = ended(command("replay", trace(straight_line(40)), *configs, "--warmup", 0), DONE)
    assert [line.split()[0] for line in run.stdout.splitlines()[4:18:2]] == [
        "linear",
        "auto",
        "careful",
        "mine",
        "a=b",
        "last",
        "median",
    ]


def test_inspect_tells_what_is_in_a_trace(command: Command, trace: Trace) -> None:
    path = trace([*straight_line(), {"wall_time": 0.0}, decode_step(1, 10)])
    run = ended(command("inspect", path), DONE)
    assert f"{path}: 14 rows (fpm_jsonl), 14 iterations, 1 idle" in run.stdout
    assert "rejected 1 no_positive_time" in run.stdout
    assert "pure_decode" in run.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "--fit", "cubic"],
        ["replay", "--format", "parquet"],
        ["replay", "--warmup", "-1"],
        ["replay", "--warmup", "many"],
        ["replay", "--threads", "0"],
        ["replay", "--by", "moon"],
        ["replay", "--html", "-"],
        ["replay", "--predictions", "-"],
        ["inspect"],
        ["watch"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_apart(command: Command, arguments: list[str]) -> None:
    run = ended(command(*arguments), USAGE)
    assert "Usage: " in run.stderr + run.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["replay", "--help"], ["inspect", "--help"]])
def test_help_is_given(command: Command, arguments: list[str]) -> None:
    assert "Usage: " in ended(command(*arguments), DONE).stdout


def test_alone_it_shows_its_help(command: Command) -> None:
    run = command()
    ended(run, USAGE if run.returncode else DONE)
    assert "replay" in run.stdout + run.stderr


BAD_FILES = {
    "absent": None,
    "empty": b"",
    "junk": bytes(range(256)) * 9,
    "prose": b"It was a dark and stormy night\n",
    "gzip header": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "JSON of another kind": b'{"hello": 1}\n',
}


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES)
@pytest.mark.parametrize("verb", ["replay", "inspect"])
def test_a_bad_input_is_named(command: Command, tmp_path: Path, verb: str, content: Any) -> None:
    path = tmp_path / "bad.jsonl"
    if content is not None:
        path.write_bytes(content)
    run = ended(command(verb, path), BAD_INPUT)
    assert run.stdout == ""
    assert run.stderr.startswith(f"forepass: {path}")


def test_other_bad_inputs_are_named(command: Command, trace: Trace, tmp_path: Path) -> None:
    path = trace([*straight_line(2), {"version": 2}])
    wrong, folder = tmp_path / "wrong.json", tmp_path / "folder"
    wrong.write_text('{"modle": 1}')
    folder.mkdir()
    for arguments, place in [
        ([path, "--strict"], f"{path}:3"),
        ([folder], str(folder)),
        ([path, path], str(path)),
        ([path, "--config", wrong], f"{wrong}: modle"),
        ([path, "--config", tmp_path / "absent.json"], "absent.json"),
        ([path, "--config", tmp_path], str(tmp_path)),
        ([path, "--json", tmp_path / "no" / "out.json"], "out.json"),
        ([path, "--predictions", path], str(path)),
        ([path, "--predictions", tmp_path / "x", "--json", tmp_path / "." / "x"], "same file"),
        ([path, "--config", "=x.json"], "=x.json"),
        ([path, "--config", "linear=x.json"], "the name 'linear' is taken"),
        ([path, "--config", "last=x.json"], "--config NAME=FILE"),
    ]:
        assert place in ended(command("replay", *arguments), BAD_INPUT).stderr


@pytest.mark.parametrize("verb", ["replay", "inspect"])
def test_no_output_overwrites_what_is_read(
    command: Command, trace: Trace, tmp_path: Path, verb: str
) -> None:
    path, link, config = trace(straight_line()), tmp_path / "link", tmp_path / "c.json"
    before = path.read_bytes()
    link.symlink_to(path)
    config.write_text(json.dumps(fp.ForwardPassModel().config))
    for target in (path, link, tmp_path / "." / path.name):
        run = ended(command(verb, path, "--json", target), BAD_INPUT)
        assert f"{target}: cannot be written" in run.stderr
    if verb == "replay":
        ended(command(verb, path, "--config", config, "--json", config), BAD_INPUT)
        assert json.loads(config.read_text()) == fp.ForwardPassModel().config
    assert path.read_bytes() == before


@pytest.mark.parametrize("verb", ["replay", "inspect"])
def test_an_unwritable_output_is_found_before_reading(
    command: Command, tmp_path: Path, verb: str
) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)  # reading it would block
    for target in (tmp_path, tmp_path / "no" / "out.json", ""):
        run = ended(command(verb, pipe, "--json", target), BAD_INPUT)
        assert "cannot be written" in run.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_fails_while_it_is_written_is_named(command: Command, trace: Trace) -> None:
    run = ended(command("replay", trace(straight_line()), "--json", "/dev/full"), BAD_INPUT)
    assert run.stderr.startswith("forepass: /dev/full: cannot be written: ")


def test_names_of_any_bytes_can_be_printed(tmp_path: Path) -> None:
    path = tmp_path / "r\udce9sum\u00e9.jsonl"
    try:
        path.write_text(json.dumps(decode_step(1, 10, 0.1)))
    except OSError:
        pytest.skip("this file system has no such names")
    run = subprocess.run(
        [sys.executable, "-m", "forepass", "replay", path],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (run.returncode, b"Traceback" in run.stderr) == (DONE, False), run.stderr


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "forepass", "replay", "--json", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    errors = run.stderr.read()
    run.stderr.close()
    assert run.wait(timeout=30) == 141
    assert errors.count(b"\n") == 1
    assert b"bundled recording" in errors


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a single process")
def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    run = subprocess.Popen(
        [sys.executable, "-m", "forepass", "replay", pipe],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    line = json.dumps(decode_step(1, 10, 0.1)).encode() + b"\n"
    with pipe.open("wb", buffering=0) as writer:
        writer.write(line)
        time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        end = time.monotonic() + 20
        try:
            while run.poll() is None and time.monotonic() < end:
                writer.write(line * 100)
        except BrokenPipeError:
            pass
    output, errors = run.communicate(timeout=20)
    assert (run.returncode, output, errors) == (130, b"", b"")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a single process")
@pytest.mark.parametrize("verb", ["replay", "inspect"])
def test_an_interrupt_ends_even_a_read_that_blocks(tmp_path: Path, verb: str) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)  # nobody ever writes to it
    run = subprocess.Popen(
        [sys.executable, "-m", "forepass", verb, pipe],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(1.5)
    run.send_signal(signal.SIGINT)
    output, errors = run.communicate(timeout=20)
    assert (run.returncode, output, errors) == (130, b"", b"")


CLOSED_STREAMS = {
    ">&-": (DONE, b"bundled recording"),
    "2>&-": (DONE, b""),
    ">&- 2>&-": (DONE, b""),
    "<&-": (DONE, b"bundled recording"),
    "--json - >&-": (DONE, b"bundled recording"),
    "absent.jsonl 2>&-": (BAD_INPUT, b""),
    "absent.jsonl >&- 2>&-": (BAD_INPUT, b""),
    "--warmup x 2>&-": (USAGE, b""),
}


@pytest.mark.skipif(os.name == "nt", reason="the syntax is that of a POSIX shell")
@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [(closed, *expected) for closed, expected in CLOSED_STREAMS.items()],
    ids=CLOSED_STREAMS,
)
def test_a_closed_stream_is_like_devnull(
    tmp_path: Path, closed: str, code: int, said: bytes
) -> None:
    run = subprocess.run(
        ["sh", "-c", f'"$0" -m forepass replay {closed}', sys.executable],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == code, run.stderr
    assert b"Traceback" not in run.stderr + run.stdout
    assert said in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_its_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['typer'] = None; sys.modules['rich'] = None\n"
        "import forepass; assert forepass.ForwardPassModel()\n"
        "from forepass.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    ended(run, BAD_INPUT)
    assert "pip install 'forepass[cli]'" in run.stderr


def test_the_package_needs_numpy_alone() -> None:
    code = (
        "import sys, forepass; forepass.replay()\n"
        "extra = {'typer', 'rich', 'yaml', 'polars', 'plotly', 'matplotlib', 'msgspec'}\n"
        "sys.exit(str(extra & set(sys.modules)) if extra & set(sys.modules) else 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    ended(run, DONE)
