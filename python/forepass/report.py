"""Reports of replays: one page that stands alone, and figures for papers.

Both take what `forepass.replay(..., timeline=True)` gives, and need the extra `report`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from forepass.errors import ForepassError
from forepass.outputs import output_target, same_file, unwritable
from forepass.report_page import html_page

if TYPE_CHECKING:
    from forepass.replay_result import ReplayResult
    from forepass.sources import StrPath


MOST_WORKERS_DRAWN = 8
"""Of more workers, those with the most rows are drawn for papers."""

_FIGURE_NAMES = (
    "distribution.svg",
    "cold-start.svg",
    *(f"{what}-{n}.svg" for n in range(1, MOST_WORKERS_DRAWN + 1) for what in ("timeline", "load")),
)


def require(package: str, what: str) -> None:
    """Finds out early whether a package of the extra is there.

    Raises:
        ForepassError: it is not.
    """
    try:
        is_there = find_spec(package) is not None
    except ValueError:  # what stands in its place is no module
        is_there = False
    if not is_there:
        message = f"{what} needs {package}: pip install 'forepass[report]'"
        raise ForepassError(message, "missing_extra", package)


def page(result: ReplayResult) -> str:
    """A page in HTML, which needs nothing beside itself, neither files nor a network.

    Raises:
        ForepassError: the result has no timeline, or plotly is not installed.
    """
    require("plotly", "a report page")
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 (an extra)

    return html_page(_with_timeline(result), get_plotlyjs())


def write_page(result: ReplayResult, path: StrPath) -> Path:
    """Writes the page.

    Raises:
        ForepassError: as of `page`, or the file cannot be written.
    """
    text = page(result)
    target = output_target(path, _files(result))
    try:
        target.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise unwritable(target, str(error)) from error
    return target


def figures_directory(directory: StrPath, kept: Sequence[StrPath]) -> Path:
    """Where figures go: a directory that is there, or can be made.

    `kept` names the files that no figure may overwrite.

    Raises:
        ForepassError: neither, or a figure would be one of these files.
    """
    path = Path(directory)
    try:
        if path.exists() and not path.is_dir():
            raise unwritable(path, "this is not a directory")
        if not path.exists():
            return output_target(path, [])
        if not os.access(path, os.W_OK):
            raise unwritable(path, "permission denied")
        for figure in (path / name for name in _FIGURE_NAMES):
            for other in kept:
                if same_file(figure, Path(other)):
                    raise unwritable(figure, f"a figure has this name, and so has {other}")
    except (OSError, ValueError) as error:
        if isinstance(error, ForepassError):
            raise
        raise unwritable(path, str(error)) from error
    return path


def write_figures(result: ReplayResult, directory: StrPath) -> list[Path]:
    """Writes the figures as SVG into a directory, which is made where it is not there.

    `distribution.svg` and `cold-start.svg` are of all workers; `timeline-N.svg` and `load-N.svg`
    are of each of the eight workers with the most rows, in the order in which the replay met them.

    Raises:
        ForepassError: the result has no timeline, matplotlib is not installed, or a file cannot be
            written.
    """
    require("matplotlib", "drawing figures")
    from forepass.report_figures import svg_figures  # noqa: PLC0415 (an extra)

    timeline = _with_timeline(result)
    kept = _files(result)
    folder = figures_directory(directory, kept)
    written = []
    try:
        folder.mkdir(exist_ok=True)
        drawings = svg_figures(timeline, MOST_WORKERS_DRAWN)
        for name, svg in zip(_FIGURE_NAMES, drawings, strict=False):
            target = output_target(folder / name, kept)
            target.write_bytes(svg)
            written.append(target)
    except OSError as error:
        raise unwritable(folder, str(error)) from error
    return written


def _with_timeline(result: ReplayResult) -> ReplayResult:
    if result.timeline is None:
        message = "the result has no timeline: ask for it with replay(..., timeline=True)"
        raise ForepassError(message, "missing_timeline", "timeline")
    return result


def _files(result: ReplayResult) -> list[str]:
    return [file for source in result.inputs for file in source.files]
