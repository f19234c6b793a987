"""Python objects as strict JSON text, whose numbers mean the same on the other side."""

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from forepass.errors import ConfigError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
"""A value that JSON has."""

_MAX_DEPTH = 64
_MAX_BITS = 64


def to_json(value: object) -> str:
    """Compact JSON text of a value made of mappings, sequences, scalars and NumPy scalars.

    A float that is not finite becomes the string "NaN", "Infinity" or "-Infinity": the core
    understands these where it expects a number, and refuses them by their path.

    Raises:
        ConfigError: another kind of object, a key that is no string, an integer of more than 64
            bits, or nesting beyond 64 levels.
    """
    return json.dumps(_plain(value, "", 0), allow_nan=False, separators=(",", ":"))


def child_path(path: str, key: object) -> str:
    """The JSON path of an entry: of an object by its key, of a list by its index."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else str(key)


def located(path: str, message: str) -> str:
    """The message preceded by its place, as the core writes it."""
    return f"{path}: {message}" if path else message


def _plain(value: Any, path: str, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        raise _fault(path, "invalid_value", f"nested deeper than {_MAX_DEPTH} levels")
    match value:
        case np.generic():
            return _scalar(value.item(), path)
        case Mapping():
            return {
                _key(key, path): _plain(entry, child_path(path, key), depth + 1)
                for key, entry in value.items()
            }
        case np.ndarray() if value.ndim:
            return _plain(value.tolist(), path, depth)
        case list() | tuple() | range():
            return [
                _plain(entry, child_path(path, index), depth + 1)
                for index, entry in enumerate(value)
            ]
        case _:
            return _scalar(value, path)


def _scalar(value: Any, path: str) -> Json:
    match value:
        case None | bool() | str():
            return value
        case int() if value.bit_length() > _MAX_BITS:
            raise _fault(path, "invalid_value", f"an integer of more than {_MAX_BITS} bits")
        case int():
            return int(value)
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case float():
            return float(value)
    kind = type(value).__name__
    raise _fault(path, "invalid_type", f"{kind} is not a value that JSON has")


def _key(key: object, path: str) -> str:
    if isinstance(key, str):
        return key
    raise _fault(path, "invalid_type", f"the key {key!r} is not a string")


def _fault(path: str, code: str, message: str) -> ConfigError:
    return ConfigError(located(path, message), code, path)
