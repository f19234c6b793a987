"""What a model is asked to be: typed configuration objects and the forms they are read from.

An object holds what its author said: a field that is None is left to the core, which knows the
defaults. `ForwardPassPerfModelConfig.load` and `.normalized` give the canonical normal form, in
which they are filled in. The core alone decides what is valid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

from forepass import _core
from forepass.documents import DocumentSource, decoded, document_text, fault, is_path
from forepass.errors import ConfigError
from forepass.strict_json import Json, to_json

ConfigSource: TypeAlias = "ForwardPassPerfModelConfig | DocumentSource"
"""A configuration: an object, a mapping, JSON text or bytes, or a path to a JSON or YAML file."""

FITS: Mapping[str, Mapping[str, Any]] = {
    "linear": {"kind": "linear"},
    "auto": {"kind": "auto"},
    "spline": {"kind": "spline"},
    "spline-periodic": {"kind": "spline", "spline": {"search": {"kind": "periodic"}}},
}
"""Options of the fits that have a name."""

REPLAYED_FITS = ("linear", "auto")
"""The fits that a replay compares unless others are named."""

_Document = TypeVar("_Document", bound="Document")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """An object of the canonical JSON."""

    _nested: ClassVar[Mapping[str, type[Document]]] = {}

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set, nested objects as dictionaries and tuples as lists."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: _authored(value) for name, value in values if value is not None}


def _authored(value: Any) -> Any:
    if isinstance(value, Document):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else value


def _read(kind: type[_Document], document: Mapping[str, Any]) -> _Document:
    """The object of a canonical document."""
    return kind(**{name: _field(kind, name, value) for name, value in document.items()})


def _field(kind: type[Document], name: str, value: Any) -> Any:
    if isinstance(value, dict) and name in kind._nested:
        return _read(kind._nested[name], value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureWeights(Document):
    """Multipliers of the terms of the two features; each finite and positive."""

    attention_kv_weight: float | None = None
    prefill_attention_pair_weight: float | None = None
    ffn_token_weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(Document):
    """Which observations a store keeps; of them, the `recent` newest wherever they lie."""

    axes: tuple[str, ...] | None = None
    bins_per_axis: tuple[int, ...] | None = None
    max_observations: int | None = None
    recent: int | None = None
    max_age: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplineSearch(Document):
    """When the knots of a spline are searched anew.

    The kind "adaptive" has all fields but `step`, the kind "periodic" has `step` alone.
    """

    kind: str | None = None
    window: int | None = None
    trigger: int | None = None
    tolerance: float | None = None
    absolute_tolerance_ms: float | None = None
    cooldown: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplineFit(Document):
    """Options of the spline fit."""

    _nested: ClassVar = {"search": SplineSearch}

    knots_per_axis: int | None = None
    search: SplineSearch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Document):
    """How latency is fitted to the features.

    `kind` is "standardized_nnls", "spline" or "auto". `weighting` ("absolute" or "relative"),
    `huber` and `level_tracking` make a fit robust; "auto" has them all.
    """

    _nested: ClassVar = {"spline": SplineFit}

    kind: str | None = None
    singular_ridge_scale: float | None = None
    rebuild_interval: int | None = None
    linear: Mapping[str, Any] | None = None
    spline: SplineFit | None = None
    weighting: str | None = None
    huber: float | None = None
    level_tracking: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FpmRegression(Document):
    """Options of regression; a store answers from `min_observations` on."""

    _nested: ClassVar = {"sampling": Sampling, "fit": Fit}

    sampling: Sampling | None = None
    min_observations: int | None = None
    fit: Fit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorConfig(Document):
    """Options of the estimator; those of other estimators are kept as they are."""

    _nested: ClassVar = {"features": FeatureWeights, "fpm_regression": FpmRegression}

    features: FeatureWeights | None = None
    fpm_regression: FpmRegression | None = None
    correction: Mapping[str, Any] | None = None
    op_level: Mapping[str, Any] | None = None
    fpm_interpolation: Mapping[str, Any] | None = None

    @classmethod
    def from_legacy(
        cls,
        options: Mapping[str, Any],
        explicit: EstimatorConfig | Mapping[str, Any] | None = None,
    ) -> Self:
        """The options that the flat ones of older programs stand for, joined with nested ones.

        Raises:
            ConfigError: a malformed option, or two explicit values that differ.
        """
        nested = None if explicit is None else to_json(_mapping(explicit))
        return _read(cls, json.loads(_core.estimator_from_legacy(to_json(options), nested)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardPassPerfModelConfig(Document):
    """The whole configuration of a model: the identity of a deployment, and its estimator."""

    _nested: ClassVar = {"estimator_config": EstimatorConfig}

    model: str | None = None
    system: str | None = None
    backend: str | None = None
    worker_type: str | None = None
    backend_version: str | None = None
    fpm_profile: Json = None
    tp: int | None = None
    pp: int | None = None
    attention_dp: int | None = None
    cp_size: int | None = None
    dcp_size: int | None = None
    moe_tp_size: int | None = None
    moe_ep_size: int | None = None
    gemm_quant_mode: str | None = None
    moe_quant_mode: str | None = None
    fmha_quant_mode: str | None = None
    kvcache_quant_mode: str | None = None
    comm_quant_mode: str | None = None
    nextn: int | None = None
    speculation: Mapping[str, Any] | None = None
    kv_block_size: int | None = None
    decoder_replay: Json = None
    estimation_mode: str | None = None
    database_mode: str | None = None
    transfer_policy: Json = None
    systems_paths: Json = None
    fallback_policy: str | None = None
    estimator_config: EstimatorConfig | None = None
    attention_backend: str | None = None
    moe_kernel_source: str | None = None
    moe_backend: str | None = None
    enable_eplb: bool | None = None
    wideep_num_slots: int | None = None
    enable_shared_layer: bool | None = None
    strict_provenance: bool | None = None

    @classmethod
    def load(cls, source: ConfigSource) -> Self:
        """The configuration in canonical normal form, aliases resolved and defaults filled in.

        Raises:
            ConfigError: a file that cannot be read, text that does not parse, or a value that is
                not valid, by its JSON path.
        """
        return _read(cls, json.loads(normal_form(source)))

    @classmethod
    def for_worker(cls, worker_type: str, estimator: EstimatorConfig | Mapping[str, Any]) -> Self:
        """A configuration without a deployment, which regression does not need.

        Raises:
            ConfigError: a value that is not valid, by its JSON path.
        """
        return _read(cls, json.loads(worker_form(worker_type, estimator)))

    def normalized(self) -> Self:
        """The same configuration in canonical normal form.

        Raises:
            ConfigError: a value that is not valid, by its JSON path.
        """
        return self.load(self)

    def to_json(self) -> str:
        """The fields that are set, as compact JSON."""
        return to_json(self.to_dict())


def normal_form(source: object) -> str:
    """The canonical JSON text of a configuration; raises ConfigError as `load` does."""
    plain = source.to_dict() if isinstance(source, Document) else source
    text = document_text(plain, "a configuration")
    try:
        return _core.normalize_config(text)
    except ConfigError as error:
        if not is_path(plain):
            raise
        path = Path(plain)
        raise ConfigError(f"{path}: {error.message}", error.code, error.path) from error


def worker_form(worker_type: object, estimator: Document | Mapping[str, Any]) -> str:
    """The canonical JSON text of a configuration without a deployment."""
    if not isinstance(worker_type, str):
        kind = type(worker_type).__name__
        raise fault("invalid_type", "worker_type", f"worker_type: expected a string, found {kind}")
    text = _estimator_json(estimator)
    return _core.worker_config(decoded(worker_type, "worker_type"), text)


def _estimator_json(estimator: Document | Mapping[str, Any]) -> str:
    """The estimator's options as JSON; what JSON does not have is refused by its full path."""
    try:
        return to_json(_mapping(estimator))
    except ConfigError as error:
        raise error.within("estimator_config") from error


def fit_options(fit: str | Fit | Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a fit, given as they are or by the fit's name."""
    if not isinstance(fit, str):
        return _mapping(fit)
    if fit in FITS:
        return FITS[fit]
    message = f"fit: no fit is named {fit!r}: use {', '.join(FITS)}"
    raise fault("invalid_value", "fit", message)


def _mapping(document: Document | Mapping[str, Any]) -> Mapping[str, Any]:
    return document.to_dict() if isinstance(document, Document) else document
