"""The entry of the command: what it needs installed, and how it ends."""

import io
import os
import sys

_EXTRA_PACKAGES = {"typer", "rich"}


def main() -> None:
    """Runs the command; exits 0 when done, 1 where the input was bad, 2 on wrong usage."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be any bytes
    try:
        from forepass.commands import app  # noqa: PLC0415 (the packages of an extra)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_PACKAGES:
            raise
        message = f"forepass: the command needs {error.name}: pip install 'forepass[cli]'"
        print(message, file=sys.stderr)
        sys.exit(1)
    app()


def _open_closed_streams() -> None:
    """Points streams that the caller has closed to nowhere.

    Their descriptors are taken too: no file that is opened later may pass for a stream.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace"))
