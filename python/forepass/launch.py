"""How deep an engine launch speculates: launches, engine options and speculation blocks.

The core computes and judges everything; this gives its answers a shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeAlias

from forepass import _core
from forepass.config import ForwardPassPerfModelConfig
from forepass.documents import DocumentSource, document_text
from forepass.errors import ConfigError, LaunchError, SpeculationError
from forepass.launch_tables import report_text
from forepass.strict_json import to_json

EngineOptions: TypeAlias = Sequence[str] | str | Mapping[str, Any]
"""Options of an engine: a list of arguments, a command line, or a mapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReport:
    """What a launch resolves to; where it is refused, as much as could be told, and why.

    `ok` says whether it is accepted. `depth` counts the tokens that a step drafts, `decode_width`
    the rows that it verifies of each sequence, and `acceptance_rates` has one rate from 0 to 1 for
    each level, given that the level before was accepted. `tree` says whether a draft branches,
    `dynamic` how the depth changes while the engine runs. `aic_nextn` is the depth as the engine's
    own option, None where nothing is drafted. `speculation` is the block that was resolved,
    `capacity` the number of KV blocks and whether it was authored.

    `provenance` says by name where each number comes from, `ignored` what the input says without
    effect, `warnings` what its author should know. `error` is None, or has "code", "path" and
    "message". `launch` is the launch in its normal form; None for the options of an engine.
    """

    schema: str
    ok: bool
    kind: str | None
    depth: int | None
    decode_width: int | None
    tree: bool | None
    dynamic: str | None
    aic_nextn: int | None
    acceptance_rates: list[float] | None
    speculation: dict[str, Any] | None
    capacity: dict[str, Any] | None
    provenance: dict[str, str]
    ignored: list[str]
    warnings: list[str]
    error: dict[str, str] | None
    launch: dict[str, Any] | None

    @classmethod
    def _read(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def raise_for_error(self) -> Self:
        """The same report where nothing is wrong.

        Raises:
            LaunchError: the error of the report, with its `code` and `path`.
        """
        if self.error is None:
            return self
        code, path, message = (self.error[name] for name in ("code", "path", "message"))
        raise LaunchError(f"{path}: {message}" if path else message, code, path)

    def to_dict(self) -> dict[str, Any]:
        """The document `forepass.launch.v1`."""
        return asdict(self)

    def to_json(self) -> str:
        """The document as indented JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        return report_text(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a speculation block drafts in one step, and where its numbers come from.

    `depth` counts the drafted tokens along a chain, `decode_width` the rows that a step verifies of
    each sequence.
    """

    kind: str
    depth: int
    decode_width: int
    tree: bool
    provenance: dict[str, str]


def resolve_launch(config: DocumentSource) -> LaunchReport:
    """Resolves an engine launch, in its canonical or in its older flat form.

    A launch that is refused is told in the report and not raised; see
    `LaunchReport.raise_for_error`.

    >>> report = resolve_launch({"engine": {"aic_nextn": 2, "aic_nextn_accept_rates": "0.8,0.5"}})
    >>> report.ok, report.depth, report.decode_width, report.acceptance_rates
    (True, 2, 3, [0.8, 0.5])
    >>> resolve_launch({"engine": {"aic_nextn": 9}}).error["code"]
    'E_ENGINE'

    Raises:
        ConfigError: a file that cannot be read, text that is not UTF-8 or not YAML, or a value
            that JSON does not have.
    """
    return launch_report(document_text(config, "a launch"))


def launch_report(text: str) -> LaunchReport:
    """The report of a launch that is JSON text."""
    return LaunchReport._read(_core.resolve_launch(text))


def resolve_engine_options(
    engine: str, options: EngineOptions, *, strict: bool = False
) -> LaunchReport:
    """Resolves the options that an operator gives to "vllm", "sglang" or "trtllm".

    There is no launch in the report. With `strict`, options that are not known are refused.

    >>> words = ["--speculative-algorithm", "NEXTN", "--speculative-num-steps", "2"]
    >>> words += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3"]
    >>> report = resolve_engine_options("sglang", words)
    >>> report.kind, report.depth, report.provenance["depth"]
    ('mtp', 2, '--speculative-num-steps')

    Raises:
        ConfigError: a value that JSON does not have.
        LaunchError: another engine.
    """
    return options_report(engine, to_json(options), strict=strict)


def options_report(engine: str, text: str, *, strict: bool = False) -> LaunchReport:
    """The report of an engine's options that are JSON text."""
    return LaunchReport._read(_core.resolve_engine_options(_name(engine, "engine"), text, strict))


def engine_methods() -> list[dict[str, Any]]:
    """What comes of each method of each engine: its kind, where its depth stands, its verdict.

    A list of mappings with "engine", "method", "case", "kind", "depth_from" and "verdict".
    """
    methods: list[dict[str, Any]] = json.loads(_core.engine_methods())
    return methods


def resolve_speculation(config: DocumentSource) -> Draft:
    """What a speculation block drafts, whether or not that can be replayed.

    >>> draft = resolve_speculation(
    ...     {"kind": "eagle3", "params": {"tree_shape": [1, 4, 4]}, "draft_model_path": "a/b"}
    ... )
    >>> draft.depth, draft.decode_width, draft.tree
    (3, 10, True)

    Raises:
        ConfigError: as `resolve_launch`.
        SpeculationError: an unknown kind, parameters that mean nothing, or a depth that only a
            checkpoint tells.
    """
    text = document_text(config, "a speculation block")
    told = json.loads(_core.resolve_speculation(text))
    return Draft(
        kind=told["kind"],
        depth=told["depth"],
        decode_width=told["verify_width"],
        tree=told["tree"],
        provenance={"depth": told["depth_source"], "decode_width": told["verify_width_source"]},
    )


def replay_depth(config: DocumentSource) -> int:
    """The depth at which a speculation block is replayed: 0 where it drafts nothing, or 1 to 5.

    Raises:
        ConfigError: as `resolve_launch`.
        SpeculationError: as `resolve_speculation`; then a tree, or a chain that is too deep.
    """
    return _core.replay_depth(document_text(config, "a speculation block"))


def materialize_engine_launch_config(
    deployment_backend: str,
    deployment_backend_version: str | None,
    parallel_config: Mapping[str, Any] | None,
    raw_config: Mapping[str, Any],
    role: str,
) -> dict[str, Any]:
    """The launch of the engine of one role of a deployment, in its normal form.

    `raw_config` holds engine options, flat or under `rank`; its `speculation` block says what is
    drafted together with how much of it is accepted.

    Raises:
        LaunchError: options that contradict the deployment, the role or each other, or a launch
            that is refused.
    """
    launch: dict[str, Any] = json.loads(
        _core.materialize_engine_launch_config(
            _name(deployment_backend, "deployment_backend"),
            None
            if deployment_backend_version is None
            else _name(deployment_backend_version, "deployment_backend_version"),
            _options(parallel_config, "parallel_config"),
            _options(raw_config, ""),
            _name(role, "role"),
        )
    )
    return launch


def canonical_performance_config(
    config: ForwardPassPerfModelConfig | Mapping[str, Any], *, worker_type: str
) -> dict[str, Any]:
    """The configuration of a performance model in its normal form, for a worker of this role.

    Raises:
        LaunchError: a configuration for another role, or one that is not valid.
    """
    plain = config.to_dict() if isinstance(config, ForwardPassPerfModelConfig) else config
    text = _core.canonical_performance_config(_options(plain, ""), _name(worker_type, "role"))
    canonical: dict[str, Any] = json.loads(text)
    return canonical


def normalize_speculation_engine_args(raw: Mapping[str, Any], *, role: str) -> dict[str, Any]:
    """The engine options of one role with the older spellings of a depth brought into one.

    What comes out is `aic_nextn`, one acceptance rate for each level, and the seed; a depth of 0 or
    None goes. A `speculation` block stays as it is.

    Raises:
        LaunchError: spellings that contradict each other, or acceptance or a seed without a depth.
    """
    text = _core.normalize_speculation_engine_args(_options(raw, ""), _name(role, "role"))
    normal: dict[str, Any] = json.loads(text)
    return normal


def speculation_report_metadata(launch: LaunchReport | Mapping[str, Any]) -> dict[str, Any]:
    """What a report says about the speculation of a launch, beside its numbers.

    Raises:
        LaunchError: a launch that is refused.
    """
    metadata: dict[str, Any] = json.loads(_core.speculation_report_metadata(_launch_text(launch)))
    return metadata


def capacity_estimation_options(launch: LaunchReport | Mapping[str, Any]) -> dict[str, Any]:
    """What an estimate of the KV capacity of a launch needs to know; absent is unbounded or unset.

    Raises:
        LaunchError: a launch that is refused.
    """
    options: dict[str, Any] = json.loads(_core.capacity_estimation_options(_launch_text(launch)))
    return options


def acceptance_from_unconditional(rates: Sequence[float]) -> list[float]:
    """Conditional acceptance rates from unconditional ones, which must not increase.

    Rates are from 0 to 1, one for each level of a draft, on both sides.

    >>> acceptance_from_unconditional([0.8, 0.4])
    [0.8, 0.5]

    Raises:
        SpeculationError: a rate out of range, or above the one before (`E_ACCEPT_INVALID`).
    """
    return _core.acceptance_from_unconditional(_rates(rates))


def acceptance_from_mean(mean: float, depth: int) -> list[float]:
    """The steadiest conditional acceptance rates with this mean of accepted drafts.

    `mean` is in tokens a step, from 0 to `depth`, and does not count the target model's own token.

    >>> acceptance_from_mean(1.5, 3)
    [1.0, 0.5, 0.0]

    Raises:
        SpeculationError: a mean that the depth does not reach (`E_ACCEPT_INVALID`), or a depth
            that cannot be replayed (`E_RANGE`).
    """
    return _core.acceptance_from_mean(_number(mean, "mean"), _count(depth, "depth"))


def expected_progress(rates: Sequence[float]) -> float:
    """Mean number of tokens by which a step advances a sequence, its own token included.

    >>> expected_progress([1.0, 0.5, 0.0])
    2.5

    Raises:
        SpeculationError: a rate that is not from 0 to 1 (`E_ACCEPT_INVALID`).
    """
    return _core.expected_progress(_rates(rates))


def decode_rows(batch: int, depth: int) -> int:
    """Rows of a decode step: each request verifies its last token and `depth` drafts.

    >>> decode_rows(2, 2)
    6

    Raises:
        SpeculationError: a count that is no whole number of 32 bits (`E_RANGE`).
    """
    return _core.decode_rows(_count(batch, "batch"), _count(depth, "depth"))


def _launch_text(launch: LaunchReport | Mapping[str, Any]) -> str:
    if not isinstance(launch, LaunchReport):
        return _options(launch, "")
    document = launch.raise_for_error().launch
    if document is None:
        raise LaunchError("engine options are no launch", "E_LAUNCH_FIELD", "launch")
    return _options(document, "")


def _options(options: object, path: str) -> str:
    try:
        return to_json(options)
    except ConfigError as error:
        located = error.within(path) if path else error
        raise LaunchError(located.message, "E_LAUNCH_FIELD", located.path) from error


def _name(value: object, path: str) -> str:
    if isinstance(value, str) and value.isascii():
        return value
    raise LaunchError(f"{path}: {value!r} is no name", "E_LAUNCH_FIELD", path)


def _rates(rates: Sequence[float]) -> list[float]:
    return [_number(rate, f"[{index}]") for index, rate in enumerate(rates)]


def _number(value: object, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise SpeculationError(f"{path}: {value!r} is no number", "E_ACCEPT_INVALID", path)


def _count(value: object, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32:
        return int(value)
    message = f"{path}: {value!r}: must be an integer from 0 to {2**32 - 1}"
    raise SpeculationError(message, "E_RANGE", path)
