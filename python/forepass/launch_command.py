"""The command `forepass launch`: how deep a launch, or the options of an engine, will speculate."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from forepass.documents import YAML_SUFFIXES, decoded, file_text, yaml_text
from forepass.launch import (
    LaunchReport,
    engine_methods,
    launch_report,
    options_report,
    resolve_engine_options,
)
from forepass.launch_tables import support_text
from forepass.schemes import scheme_backends
from forepass.terminal import BAD_INPUT, note, orderly_end, refuse_outputs, write_json

_ENGINES = ("vllm", "sglang", "trtllm")
_OPTION_WITHIN = re.compile(r"\s-|^-\S+\s")  # a whole command line in one word
_DOCUMENT_SUFFIXES = {".json", *YAML_SUFFIXES}


def _engine(name: str | None) -> str | None:
    if name is not None and name not in _ENGINES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(_ENGINES)}")
    return name


def launch_command(
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|-] [-- OPTION...]",
            help="A launch as JSON or YAML, - for stdin; with --engine, the engine's options after "
            "--, or a file of them.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Resolve the options of an engine: {', '.join(_ENGINES)}.",
            callback=_engine,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse engine options that are not known.")
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE|-", help="Write the report as JSON; - for stdout."),
    ] = None,
    matrix: Annotated[
        bool,
        typer.Option("--matrix", help="Tell what each engine's methods and each scheme come to."),
    ] = False,
) -> None:
    """Tell how deep a launch speculates, where each number comes from, and what is wrong."""
    words = words or []
    with orderly_end():
        if matrix:
            _refuse_words(words, engine, strict=strict)
            _tell_support(json_file)
            return
        if engine is None:
            report = _launch(words, json_file, strict=strict)
        else:
            report = _options(engine, words, json_file, strict=strict)
        write_json(json_file, report.to_json())
        if json_file != Path("-"):
            print(report)
        if report.error is not None:
            place = f" at {report.error['path']}" if report.error["path"] else ""
            note(f"{report.error['code']}{place}: {report.error['message']}")
    if not report.ok:
        raise typer.Exit(BAD_INPUT)


def _refuse_words(words: list[str], engine: str | None, *, strict: bool) -> None:
    if words or engine is not None or strict:
        raise typer.BadParameter("--matrix is about all engines: leave everything else out")


def _tell_support(json_file: Path | None) -> None:
    refuse_outputs([], json_file)
    schemes, methods = scheme_backends(), engine_methods()
    write_json(json_file, json.dumps({"schemes": schemes, "methods": methods}, indent=1))
    if json_file != Path("-"):
        print(support_text(schemes, methods))


def _launch(words: list[str], json_file: Path | None, *, strict: bool) -> LaunchReport:
    if strict:
        raise typer.BadParameter("--strict is about the options of an engine: give --engine")
    if len(words) != 1:
        raise typer.BadParameter("give one launch: a file, or - for stdin")
    refuse_outputs(words, json_file)
    return launch_report(_text(words[0]))


def _options(
    engine: str, words: list[str], json_file: Path | None, *, strict: bool
) -> LaunchReport:
    lone = words[0] if len(words) == 1 else ""
    if _OPTION_WITHIN.search(lone):
        refuse_outputs([], json_file)
        return resolve_engine_options(engine, lone, strict=strict)
    if lone != "-" and Path(lone).suffix.lower() not in _DOCUMENT_SUFFIXES:
        refuse_outputs([], json_file)
        return resolve_engine_options(engine, words, strict=strict)
    refuse_outputs(words, json_file)
    return options_report(engine, _text(lone), strict=strict)


def _text(name: str) -> str:
    """The JSON text of a file, or of the standard input, which may be YAML as well."""
    if name != "-":
        return file_text(Path(name))
    content = sys.stdin.buffer.read()
    if content.lstrip().startswith((b"{", b"[")):
        return decoded(content, "")
    return yaml_text(content)
