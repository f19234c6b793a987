"""The entry of the command: what it needs installed, and how it ends."""

import io
import sys

_EXTRA_PACKAGES = {"typer", "rich"}


def main() -> None:
    """Runs the command; exits 0 when done, 1 where the input was bad, 2 on wrong usage."""
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
