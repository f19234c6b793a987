"""Columns of single-rank iterations, from whatever holds them to the arrays of the core."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from forepass import _core
from forepass.errors import MetricsError

WALL_TIME = "wall_time"

CARRIED_COLUMNS = frozenset(
    {
        "counter_id",
        "dp_rank",
        "extend_lengths",
        "num_queued_decode",
        "num_queued_prefill",
        "past_kv_lengths",
        "sum_queued_decode_kv_tokens",
        "sum_queued_prefill_tokens",
        "timing_scope",
        "var_decode_kv_tokens",
        "var_prefill_length",
        "var_queued_decode_kv_tokens",
        "var_queued_prefill_length",
        "worker_id",
    }
)
"""Fields of a record on which no forecast depends; their columns need the same length, no more."""

_MAX_COUNT = 2**53
_MAX_ITEMSIZE = 8


def is_table(data: object) -> bool:
    """Whether the object has named columns: a mapping, or a data frame of any library."""
    return isinstance(data, Mapping) or (hasattr(data, "columns") and hasattr(data, "__getitem__"))


def core_columns(data: Any) -> dict[str, npt.NDArray[np.float64]]:
    """The columns that matter, each a contiguous float64 array of shape (rows,).

    Raises:
        MetricsError: an unknown name, a column that is not one-dimensional or not of real numbers,
            a carried column of another length, or a counter that float64 does not hold exactly; by
            the column, and the row.
    """
    names = list(data.keys() if isinstance(data, Mapping) else data.columns)
    for name in names:
        if name not in _core.COLUMN_NAMES and name not in CARRIED_COLUMNS:
            known = ", ".join(_core.COLUMN_NAMES)
            raise _fault("invalid_column", str(name), f"no such column: use {known}")
    columns = {name: _float64(name, data[name]) for name in names if name not in CARRIED_COLUMNS}
    for first, column in list(columns.items())[:1]:
        for name in names:
            if name in CARRIED_COLUMNS:
                _check_length(name, data[name], first, len(column))
    return columns


def _check_length(name: str, values: Any, first: str, rows: int) -> None:
    """Refuses a column that holds another number of rows; None stands for no column."""
    if values is None:
        return
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise _fault("invalid_column", name, f"{type(values).__name__} is not a column")
    try:
        found = len(values)
    except TypeError as error:  # an array without dimensions
        raise _fault("invalid_column", name, str(error)) from error
    if found != rows:
        raise _fault("invalid_column", name, f"{found} rows where {first} has {rows}")


def _float64(name: str, values: Any) -> npt.NDArray[np.float64]:
    if isinstance(values, np.ma.MaskedArray):
        raise _fault("invalid_column", name, "a masked array: leave the masked rows out")
    if isinstance(values, list | tuple):
        _check_entries(name, values)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise _fault("invalid_column", name, str(error)) from error
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > _MAX_ITEMSIZE:
        message = f"dtype {array.dtype}: give integers or floats of at most 64 bits"
        raise _fault("invalid_column", name, message)
    if array.ndim != 1:
        raise _fault("invalid_column", name, f"shape {array.shape}: give one dimension")
    if name != WALL_TIME and array.dtype.kind in "iu":
        _check_exact(name, array)
    return np.ascontiguousarray(array, dtype=np.float64)


def _check_entries(name: str, values: list[Any] | tuple[Any, ...]) -> None:
    """Refuses what becoming an array would hide: a bool, and an integer that is rounded."""
    for row, value in enumerate(values):
        if isinstance(value, bool | np.bool_):
            raise _fault("invalid_column", f"{name}[{row}]", f"{value} is not a number")
        if name != WALL_TIME and isinstance(value, int | np.integer) and value > _MAX_COUNT:
            raise _too_large(name, row, value)


def _check_exact(name: str, counters: npt.NDArray[Any]) -> None:
    if counters.size and counters.max() > _MAX_COUNT:
        row = int(np.argmax(counters > _MAX_COUNT))
        raise _too_large(name, row, counters[row])


def _too_large(name: str, row: int, value: Any) -> MetricsError:
    shown = str(value) if value < 2**64 else "an integer of more than 64 bits"
    message = f"{shown} is more than 2^53, which no count of tokens or requests is"
    return _fault("invalid_field", f"{name}[{row}]", message)


def _fault(code: str, path: str, message: str) -> MetricsError:
    return MetricsError(f"{path}: {message}", code, path)
