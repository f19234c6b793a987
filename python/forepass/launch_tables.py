"""What launches resolve to, and what can be resolved at all, as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forepass import _core
from forepass.tables import table

if TYPE_CHECKING:
    from forepass.launch import LaunchReport

_BACKENDS = ("vllm", "sglang", "trtllm")
_FIELDS = (
    "kind",
    "depth",
    "decode_width",
    "tree",
    "dynamic",
    "aic_nextn",
    "acceptance_rates",
    "tokens_per_step",
    "num_gpu_blocks",
    "tensor_parallel_size",
    "dp_size",
)


def report_text(report: LaunchReport) -> str:
    """The verdict, each number with where it comes from, and what else the author should know."""
    values = {name: getattr(report, name, None) for name in _FIELDS}
    rates = report.acceptance_rates
    if rates:
        values["tokens_per_step"] = f"{_core.expected_progress(rates):.6g}"
    if report.capacity is not None:
        explicit = "explicit" if report.capacity["explicit"] else "inferred"
        values["num_gpu_blocks"] = f"{report.capacity['num_gpu_blocks']} ({explicit})"
    launch = report.launch or {}
    values |= {name: launch.get(name) for name in ("tensor_parallel_size", "dp_size")}
    named = [name for name in _FIELDS if values[name] not in (None, [])]
    told = [name for name in report.provenance if name not in named]
    rows = [
        (name.replace("_", " "), _value(values.get(name)), report.provenance.get(name, ""))
        for name in (*named, *told)
    ]
    verdict = "accepted" if report.ok else "refused"
    blocks = [verdict, *([table(("", "value", "from"), rows, text_columns=3)] if rows else [])]
    remarks = [f"ignored: {remark}" for remark in report.ignored]
    remarks += [f"warning: {remark}" for remark in report.warnings]
    return "\n\n".join([*blocks, *(["\n".join(remarks)] if remarks else [])])


def support_text(schemes: Mapping[str, Sequence[str]], methods: Sequence[Mapping[str, Any]]) -> str:
    """Which scheme each backend replays, and what comes of each method of each engine."""
    cells = [
        (kind, *("yes" if backend in backends else "no" for backend in _BACKENDS))
        for kind, backends in schemes.items()
    ]
    rows = [
        (
            method["engine"],
            method["method"],
            method["case"],
            method["kind"] or "-",
            method["depth_from"],
            method["verdict"],
        )
        for method in methods
    ]
    header = ("engine", "method", "case", "scheme", "depth from", "verdict")
    return "\n\n".join(
        [
            table(("scheme", *_BACKENDS), cells, text_columns=4),
            table(header, rows, text_columns=len(header)),
        ]
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(f"{rate:.6g}" for rate in value)
    return "" if value is None else str(value)
