"""How commands speak at the terminal: their streams, their outputs and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import typer

from forepass.errors import ForepassError
from forepass.outputs import output_target, same_file, unwritable

BAD_INPUT = 1
_INTERRUPTED = 130  # 128 + SIGINT, as a shell has it
_BROKEN_PIPE = 141  # 128 + SIGPIPE


@contextmanager
def orderly_end() -> Iterator[None]:
    """Turns what stops a command into its exit code, without a traceback."""
    try:
        yield
        sys.stdout.flush()
    except ForepassError as error:
        note(str(error))
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(_INTERRUPTED) from interrupt
    except BrokenPipeError as error:
        # What is still buffered goes nowhere, so that the interpreter ends quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(_BROKEN_PIPE) from error
    except OSError as error:
        note(str(error))
        raise typer.Exit(BAD_INPUT) from error


def refuse_outputs(
    kept: Sequence[str],
    json_file: Path | None,
    others: Mapping[str, Path | None] | None = None,
) -> None:
    """Finds outputs that cannot or must not be written before anything is read."""
    json_file = None if json_file == Path("-") else json_file
    given = {"--json": json_file, **(others or {})}
    targets = {option: path for option, path in given.items() if path is not None}
    for target in targets.values():
        output_target(target, kept)
    for (one, path), (other, target) in combinations(targets.items(), 2):
        if same_file(path, target):
            raise unwritable(target, f"{one} and {other} name the same file")


def write_json(target: Path | None, text: str) -> None:
    """Writes a document where it was asked for; - is the standard output."""
    if target == Path("-"):
        print(text)
    elif target is not None:
        try:
            target.write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            raise unwritable(target, str(error)) from error


def tell_faults(warnings: Sequence[str], faults: Sequence[str]) -> None:
    """Tells what was odd, and what was left out."""
    for warning in warnings:
        note(f"warning: {warning}")
    for fault in faults:
        note(f"skipped: {fault}")


def note(message: str) -> None:
    """Tells something beside the results."""
    print(f"forepass: {message}", file=sys.stderr)
