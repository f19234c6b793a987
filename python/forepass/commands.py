"""The command `forepass`: replays and inspections of recorded traces at the terminal."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

import forepass
from forepass import report
from forepass._core import BASELINES, PROTOCOLS
from forepass.config import FITS, REPLAYED_FITS
from forepass.errors import ConfigError
from forepass.launch_command import launch_command
from forepass.replay import FitSource, ProgressCallback
from forepass.sources import trace_files
from forepass.tables import inspection_text, reading_line
from forepass.terminal import note, orderly_end, refuse_outputs, tell_faults, write_json

app = typer.Typer(
    name="forepass",
    help="Forecasts how long an LLM engine's next forward pass takes.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _one_of(*names: str) -> Callable[[Any], Any]:
    """A check that an option's value, or each of its values, is one of the names."""

    def check(value: Any) -> Any:
        for name in [value] if isinstance(value, str) else value or []:
            if name not in names:
                raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}")
        return value

    return check


def _file_alone(target: Path | None) -> Path | None:
    if target == Path("-"):
        raise typer.BadParameter("the standard output is for --json: name a file")
    return target


def _print_version(wanted: bool) -> None:  # noqa: FBT001 (called by position)
    if wanted:
        print(f"forepass {forepass.__version__}")
        raise typer.Exit


Traces = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TRACE",
        help="Traces: files of any format, gzipped or not, directories, patterns, catalogues.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Stop at the first bad line. A cut end is none: the recording may still go on.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"Format, where it is not to be detected: {', '.join(forepass.TRACE_FORMATS)}.",
        callback=_one_of(*forepass.TRACE_FORMATS),
    ),
]
JoinRanks = Annotated[
    int | None,
    typer.Option(
        metavar="RANKS",
        min=2,
        max=2**16,
        help="Join lines of this many ranks by their counters, which may have drifted apart.",
    ),
]


@app.callback()
def forepass_command(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Forecasts how long an LLM engine's next forward pass takes."""


@app.command("replay")
def replay_command(
    *,
    traces: Traces = None,
    fit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Fit to replay, repeatable: {', '.join(FITS)}. "
            f"[default: {' and '.join(REPLAYED_FITS)}]",
            callback=_one_of(*FITS),
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Configuration to replay too, repeatable; named by its file or as given.",
        ),
    ] = None,
    warmup: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Rows a store learns before its rows count.")
    ] = 64,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="worker", help="Break the results down, too.", callback=_one_of("worker")
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE|-", help="Write the results as JSON; - for stdout."),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write each single prediction as CSV.",
            callback=_file_alone,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write a report as one page that needs nothing else.",
            callback=_file_alone,
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the figures as SVG.", callback=_file_alone),
    ] = None,
    strict: Strict = False,
    trace_format: Format = None,
    join_ranks: JoinRanks = None,
    protocol: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Order and scoring: {', '.join(PROTOCOLS)}.",
            callback=_one_of(*PROTOCOLS),
        ),
    ] = PROTOCOLS[0],
    threads: Annotated[
        int | None, typer.Option(min=1, max=2**32 - 1, help="Threads. [default: one a CPU]")
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines", help="Compare with forecasts that know no load."
        ),
    ] = True,
) -> None:
    """Predict each iteration before learning from it, and tell how good the predictions were.

    Without a trace, replays the recording that comes with the package.
    """
    with orderly_end():
        if not traces:
            note(f"no trace is given: replaying the bundled recording {forepass.sample_path()}")
        configs = [_named_config(given) for given in config or []]
        kept = trace_files(traces or [str(forepass.sample_path())])
        kept += [str(path) for _, path in configs]
        refuse_outputs(kept, json_file, {"--predictions": predictions, "--html": html})
        if html is not None:
            report.require("plotly", "--html")
        if figures is not None:
            report.require("matplotlib", "--figures")
            beside = [str(path) for path in (json_file, predictions, html) if path is not None]
            report.figures_directory(figures, [*kept, *beside])
        contenders = _contenders(fit or REPLAYED_FITS, configs)
        with _progress_bar() as progress:
            result = forepass.replay(
                traces or None,
                contenders,
                warmup=warmup,
                threads=threads,
                by_worker=by is not None,
                strict=strict,
                trace_format=trace_format,
                join_ranks=join_ranks,
                protocol=protocol,
                predictions=predictions,
                timeline=html is not None or figures is not None,
                baselines=baselines,
                progress=progress,
            )
        write_json(json_file, result.to_json())
        if html is not None:
            note(f"the report is {report.write_page(result, html)}")
        if figures is not None:
            written = report.write_figures(result, figures)
            note(f"{len(written)} figures are in {figures}{_few_drawn(result)}")
        for source in result.inputs:
            tell_faults(source.warnings, source.faults)
        if json_file != Path("-"):
            by_input = result.results[0].by_input
            for source in result.inputs:
                print(reading_line(source, by_input[source.path].rows))
            print(f"\n{result}")


@app.command("inspect")
def inspect_command(
    *,
    traces: Annotated[list[str], typer.Argument(metavar="TRACE", help="Traces, as of the replay.")],
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE|-", help="Write what is found as JSON; - for stdout."),
    ] = None,
    knots: Annotated[
        bool,
        typer.Option("--knots", help="Learn, and tell the knots of the adaptive spline."),
    ] = False,
    strict: Strict = False,
    trace_format: Format = None,
    join_ranks: JoinRanks = None,
) -> None:
    """Tell what is in traces: workers, times, each kind of work, and what can be learned of it."""
    with orderly_end():
        refuse_outputs(trace_files(traces), json_file)
        document = forepass.inspect(
            traces, strict=strict, trace_format=trace_format, join_ranks=join_ranks, knots=knots
        )
        write_json(json_file, json.dumps(document, indent=1))
        for source in document["inputs"]:
            tell_faults(source["warnings"], source["faults"])
        if json_file != Path("-"):
            print(inspection_text(document))


app.command("launch")(launch_command)


def _few_drawn(result: forepass.ReplayResult) -> str:
    found, most = (result.timeline or {})["workers_found"], report.MOST_WORKERS_DRAWN
    if found <= most:
        return ""
    return f": those of each worker are of the {most} with the most rows, of {found:,} workers"


@contextmanager
def _progress_bar() -> Iterator[ProgressCallback | None]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def update(read: int, total: int) -> None:
            bar.update(task, completed=read, total=total)

        yield update


def _named_config(given: str) -> tuple[str, Path]:
    """The name and file of a configuration; a file whose own name has "=" is taken as such."""
    name, equals, file = given.partition("=")
    path = Path(file if equals and not Path(given).is_file() else given)
    name = name if equals and path == Path(file) else path.stem
    if not name or not path.stem:
        raise ConfigError(f"{given}: not a file, nor NAME=FILE", "unreadable", given)
    return name, path


def _contenders(fits: Sequence[str], configs: Sequence[tuple[str, Path]]) -> list[FitSource]:
    contenders: list[FitSource] = list(dict.fromkeys(fits))
    taken = {*fits, *BASELINES}
    for name, path in configs:
        if name in taken:
            message = f"{path}: the name {name!r} is taken: give another with --config NAME=FILE"
            raise ConfigError(message, "conflict", str(path))
        taken.add(name)
        contenders.append((name, path))
    return contenders
