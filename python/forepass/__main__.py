"""Runs the command as `python -m forepass`."""

from forepass.cli import main

main()
