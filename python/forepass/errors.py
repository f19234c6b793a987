"""What can go wrong, as exceptions that say where."""

from typing import Self


class ForepassError(ValueError):
    """Something that a caller gave is wrong; nothing has been changed by it.

    `message` says what was found and what would be right, `code` is a stable identifier such as
    "invalid_value", and `path` is the place: a JSON path, a column and row, or a file and line.
    """

    message: str
    code: str
    path: str

    def __init__(self, message: str, code: str = "", path: str = "") -> None:
        super().__init__(message, code, path)
        self.message = message
        self.code = code
        self.path = path

    def __str__(self) -> str:
        return self.message

    def within(self, prefix: str) -> Self:
        """The same fault seen from an enclosing value: `prefix` is put before the path."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        joint = dot if self.path else ": "
        return type(self)(f"{prefix}{joint}{self.message}", self.code, f"{prefix}{dot}{self.path}")


class ConfigError(ForepassError):
    """A configuration does not parse, contradicts itself or asks for what is not supported."""


class MetricsError(ForepassError):
    """A forward-pass record is malformed, breaks an invariant or does not fit the worker's role."""


class TraceError(ForepassError):
    """A trace file cannot be read as what it claims to be."""


class SpeculationError(ForepassError):
    """A speculation block cannot be resolved, or not replayed."""


class LaunchError(ForepassError):
    """An engine launch does not parse, contradicts itself or cannot be replayed."""
