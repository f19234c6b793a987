"""Speculation schemes that a program adds, each with a resolver written in Python."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from forepass import _core
from forepass.errors import SpeculationError

Resolver: TypeAlias = Callable[
    [str, dict[str, Any], str | None, dict[str, Any] | None], tuple[int, int]
]
"""Called with kind, params, draft model path and draft config; answers depth and verify width."""

_LARGEST = 2**32 - 1

_lock = threading.Lock()
_resolvers: dict[str, Resolver] = {}


def register_scheme(
    kind: str, resolver: Resolver, *, backends: Sequence[str] = ("vllm", "sglang")
) -> None:
    """Makes a scheme known to the whole process, for launches on these backends.

    Wherever the core meets the kind it calls the resolver, on the thread that asked. A
    `SpeculationError` from the resolver becomes the error of what was asked; another `ValueError`
    means that the parameters are wrong (`E_PARAM`); any other exception, or an answer that is not
    two integers, that the scheme cannot run (`E_RUNTIME`). A kind is registered once: unregister it
    before registering another resolver.

    Raises:
        SpeculationError: a kind that is blank, built in or registered already (`E_KIND`), a
            resolver that cannot be called (`E_PARAM`), or an unknown backend (`E_BACKEND`).
    """
    if not isinstance(kind, str):
        raise SpeculationError(f"kind: {kind!r} is not a string", "E_KIND", "kind")
    if not callable(resolver):
        raise SpeculationError(f"resolver: {resolver!r} cannot be called", "E_PARAM", "resolver")
    if isinstance(backends, str) or not all(isinstance(name, str) for name in backends):
        message = f"backends: {backends!r} is not a sequence of names"
        raise SpeculationError(message, "E_BACKEND", "backends")
    with _lock:
        _core.register_scheme(_text(kind), list(backends))
        _resolvers[kind] = resolver


def unregister_scheme(kind: str) -> bool:
    """Forgets a registered scheme; tells whether there was one."""
    with _lock:
        return kind in _resolvers and bool(
            _core.unregister_scheme(kind) and _resolvers.pop(kind, None)
        )


def scheme_backends() -> dict[str, tuple[str, ...]]:
    """All schemes by name, built in or registered, with the backends that can replay them."""
    return {kind: tuple(backends) for kind, backends in _core.scheme_backends()}


def answer(kind: str, config_json: str) -> tuple[int, int] | tuple[str, str, str]:
    """What the core asks: depth and verify width, or code, path and message of a fault."""
    with _lock:  # one that is being registered is there once the lock is free
        resolver = _resolvers.get(kind)
    if resolver is None:
        return "E_RUNTIME", "kind", f"{kind} has been unregistered"
    config = json.loads(config_json)
    try:
        told = resolver(
            kind, config["params"], config.get("draft_model_path"), config.get("draft_config")
        )
    except SpeculationError as error:
        message = error.message.removeprefix(f"{error.path}: ")
        return error.code, error.path, message
    except ValueError as error:
        return "E_PARAM", "params", str(error)
    except Exception as error:  # noqa: BLE001 (whatever it is, the core gets an answer)
        return "E_RUNTIME", "kind", f"the resolver of {kind}: {type(error).__name__}: {error}"
    match told:
        case (depth, width) if _is_count(depth) and _is_count(width):
            return depth, width
    message = f"the resolver of {kind} answers {told!r}: must be the depth and the verify width"
    return "E_RUNTIME", "kind", message


def _text(name: str) -> str:
    try:
        return name.encode().decode()
    except UnicodeError as error:
        raise SpeculationError(f"kind: {error}", "E_KIND", "kind") from error


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST
