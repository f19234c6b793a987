"""Speculation schemes that a program registers: what they answer, and what their faults become."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import forepass as fp
from steps import refused

BLOCK = {"kind": "lookup", "params": {"window": 2}, "draft_model_path": "a/b"}


@pytest.fixture(autouse=True)
def _no_scheme_stays() -> Iterator[None]:
    yield
    fp.unregister_scheme("lookup")


def answering(told: Any) -> Callable[..., Any]:
    return lambda *_: told


def raising(error: BaseException) -> Callable[..., Any]:
    def resolver(*_: Any) -> Any:
        raise error

    return resolver


def test_a_registered_scheme_is_asked_wherever_its_kind_stands() -> None:
    asked = []

    def resolver(kind: str, params: Any, path: str | None, config: Any) -> tuple[int, int]:
        asked.append((kind, params, path, config))
        return params["window"], params["window"] + 1

    fp.register_scheme("lookup", resolver, backends=["sglang"])
    draft = fp.resolve_speculation(BLOCK)
    assert (draft.kind, draft.depth, draft.decode_width) == ("lookup", 2, 3)
    assert draft.provenance == {"depth": "registered scheme", "decode_width": "registered scheme"}
    assert asked == [("lookup", {"window": 2}, "a/b", None)]
    assert fp.scheme_backends()["lookup"] == ("sglang",)
    config = {
        "model": "m",
        "system": "h200",
        "backend": "sglang",
        "worker_type": "aggregated",
        "speculation": BLOCK,
    }
    engine = {
        "backend": "sglang",
        "num_gpu_blocks": 4096,
        "aic_nextn_accept_rates": "0.8,0.6",
        "timing_model": {"kind": "external", "provider": "ais", "config": config},
    }
    assert fp.resolve_launch({"engine": engine}).depth == 2
    engine["backend"] = "vllm"
    error = fp.resolve_launch({"engine": engine}).error
    assert error is not None
    assert error["code"] == "E_BACKEND"


@pytest.mark.parametrize(
    ("resolver", "code", "path", "says"),
    [
        (raising(fp.SpeculationError("window: odd", "E_RANGE", "window")), "E_RANGE", "window", ""),
        (raising(fp.SpeculationError("what?", "E_MINE", "kind")), "E_RUNTIME", "kind", "what?"),
        (raising(ValueError("no such window")), "E_PARAM", "params", "no such window"),
        (raising(KeyError("width")), "E_RUNTIME", "kind", "KeyError: 'width'"),
        (raising(KeyboardInterrupt()), "E_RUNTIME", "kind", "KeyboardInterrupt"),
        (answering(None), "E_RUNTIME", "kind", "None"),
        (answering((3,)), "E_RUNTIME", "kind", "(3,)"),
        (answering((True, 2)), "E_RUNTIME", "kind", "True"),
        (answering((2.0, 3)), "E_RUNTIME", "kind", "2.0"),
        (answering((-1, 3)), "E_RUNTIME", "kind", "-1"),
        (answering((2**32, 3)), "E_RUNTIME", "kind", str(2**32)),
        (answering((3, 3)), "E_RUNTIME", "kind", "verify width 3"),
    ],
)
def test_a_fault_of_a_resolver_becomes_a_typed_error(
    resolver: Callable[..., Any], code: str, path: str, says: str
) -> None:
    fp.register_scheme("lookup", resolver)
    error = refused(fp.SpeculationError, lambda: fp.resolve_speculation(BLOCK))
    assert (error.code, error.path) == (code, path)
    assert says in error.message
    assert error.message.count(f"{path}: ") == 1


@pytest.mark.parametrize(
    ("told", "code"), [((3, 10), "E_TREE"), ((6, 7), "E_RANGE"), ((0, 1), "E_RANGE")]
)
def test_what_a_scheme_answers_is_judged_like_any_other_draft(
    told: tuple[int, int], code: str
) -> None:
    fp.register_scheme("lookup", answering(told))
    assert fp.resolve_speculation(BLOCK).depth == told[0]
    assert refused(fp.SpeculationError, lambda: fp.replay_depth(BLOCK)).code == code


def test_a_kind_is_registered_once_until_it_is_unregistered() -> None:
    fp.register_scheme("lookup", answering((2, 3)))
    again = lambda: fp.register_scheme("lookup", answering((3, 4)))  # noqa: E731
    assert refused(fp.SpeculationError, again).code == "E_KIND"
    assert fp.replay_depth(BLOCK) == 2
    assert fp.unregister_scheme("lookup")
    assert not fp.unregister_scheme("lookup")
    assert refused(fp.SpeculationError, lambda: fp.replay_depth(BLOCK)).code == "E_KIND"
    again()
    assert fp.replay_depth(BLOCK) == 3


def test_what_cannot_be_registered_is_refused_and_leaves_nothing() -> None:
    known = fp.scheme_backends()
    resolver: Any = answering((2, 3))
    bad: list[tuple[Callable[[], None], str]] = [
        (lambda: fp.register_scheme("mtp", resolver), "E_KIND"),
        (lambda: fp.register_scheme(" ", resolver), "E_KIND"),
        (lambda: fp.register_scheme("\ud800", resolver), "E_KIND"),
        (lambda: fp.register_scheme(3, resolver), "E_KIND"),  # type: ignore[arg-type]
        (lambda: fp.register_scheme("lookup", None), "E_PARAM"),  # type: ignore[arg-type]
        (lambda: fp.register_scheme("lookup", resolver, backends=["tgi"]), "E_BACKEND"),
        (lambda: fp.register_scheme("lookup", resolver, backends="vllm"), "E_BACKEND"),
    ]
    for call, code in bad:
        assert refused(fp.SpeculationError, call).code == code
    assert fp.scheme_backends() == known
    assert not fp.unregister_scheme("mtp")


def test_threads_may_register_and_resolve_at_once() -> None:
    unexpected: list[object] = []

    def work() -> None:
        for _ in range(300):
            try:
                fp.register_scheme("lookup", answering((2, 3)))
            except fp.SpeculationError as error:
                if error.code != "E_KIND":
                    unexpected.append(error)
            try:
                if fp.replay_depth(BLOCK) != 2:
                    unexpected.append("depth")
            except fp.SpeculationError as error:
                if error.code not in {"E_KIND", "E_RUNTIME"}:
                    unexpected.append(error)
            fp.unregister_scheme("lookup")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert unexpected == []
