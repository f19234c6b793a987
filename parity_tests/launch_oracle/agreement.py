"""Where authored values must agree: depth, role and topology on both sides; and which of two faults is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cells import ACCEPT, Cell, everywhere, rates_of
from .documents import ABSENT, ROLES, launch_document
from .schemes import DRAFT_PATH, RUNS, SOUND, block, eagle3

LEGACY_RATES = rates_of(3)


def depth_cells() -> Iterator[Cell]:
    yield from canonical_depths()
    yield from legacy_depths()
    yield from other_timing()


def canonical_depths() -> Iterator[Cell]:
    """An authored aic_nextn beside a scheme of depth 3."""
    section = "depth_agreement"
    authored: dict[int | str | None, tuple[str, bool]] = {
        ABSENT: (ACCEPT, True),
        3: (ACCEPT, True),
        **dict.fromkeys((1, 2, 4, 5), ("E_DEPTH_CONFLICT", True)),
        0: ("E_ENGINE", False),
        6: ("E_ENGINE", False),
        None: (ACCEPT, False),
    }
    for backend, kinds in RUNS.items():
        for kind in kinds:
            for role in ROLES:
                for depth, (expected, star) in authored.items():
                    name = f"{kind}-3-aic-{'null' if depth is None else depth}"
                    document = launch_document(
                        backend, role, speculation=SOUND[kind], aic_nextn=depth, rates=rates_of(3)
                    )
                    note = "null counts as absent" if depth is None else ""
                    yield Cell(section, name, backend, role, document, expected, star, note)


def legacy_depths() -> Iterator[Cell]:
    """An authored aic_nextn beside a legacy depth, and beside none at all."""
    section = "depth_agreement"
    for backend, role in everywhere():
        for nextn in range(1, 6):
            for aic_nextn in (*range(1, 6), None):
                expected = ACCEPT if aic_nextn in (None, nextn) else "E_DEPTH_CONFLICT"
                name = f"nextn-{nextn}-aic-{'null' if aic_nextn is None else aic_nextn}"
                document = launch_document(backend, role, nextn=nextn, aic_nextn=aic_nextn, rates=rates_of(nextn))
                yield Cell(section, name, backend, role, document, expected)
        for provider in ("ais", "aic"):
            document = launch_document(backend, role, aic_nextn=3, rates=LEGACY_RATES, provider=provider)
            yield Cell(section, f"no-depth-aic-3-{provider}", backend, role, document, "E_DEPTH_CONFLICT")


def other_timing() -> Iterator[Cell]:
    """An authored aic_nextn where no canonical configuration says otherwise."""
    timings: dict[str, dict[str, Any]] = {
        "polynomial": {"kind": "polynomial"},
        "fixed": {"kind": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0},
        "other-provider": {"kind": "external", "provider": "recorded", "config": {"nextn": 2}},
    }
    for backend, role in everywhere():
        for name, timing in timings.items():
            document = launch_document(backend, role, aic_nextn=3, rates=LEGACY_RATES, timing=timing)
            note = "another provider's configuration is not read" if name == "other-provider" else ""
            yield Cell("depth_agreement", f"aic-3-{name}", backend, role, document, ACCEPT, note=note)


def environment_cells() -> Iterator[Cell]:
    yield from unreadable_checkpoints()
    yield from topology()
    yield from roles()
    yield from rank_limits()


def unreadable_checkpoints() -> Iterator[Cell]:
    """Schemes whose depth stands in a checkpoint known by its path alone: an error, whatever runs around it."""
    for kind, runs_on in (("dflash", ("vllm",)), ("dspark", ("vllm", "sglang"))):
        for backend, role in everywhere():
            document = launch_document(backend, role, speculation=block(kind, {}, DRAFT_PATH), rates=rates_of(3))
            supported = backend in runs_on
            expected = "E_RUNTIME" if supported else "E_BACKEND"
            yield Cell("environment", f"{kind}-unread-checkpoint", backend, role, document, expected, supported)


def topology() -> Iterator[Cell]:
    """Parallelism that the two sides must share, with legacy depth so that every backend gets as far."""
    cases: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
        "pp-2": ({"pp": 2}, {}, "E_TOPOLOGY"),
        "tp-2-against-1": ({"tp": 2}, {"tensor_parallel_size": 1}, "E_TOPOLOGY"),
        "tp-1-against-2": ({}, {"tensor_parallel_size": 2}, "E_TOPOLOGY"),
        "dp-2-against-1": ({"attention_dp": 2}, {"dp_size": 1}, "E_TOPOLOGY"),
        "dp-1-against-2": ({}, {"dp_size": 2}, "E_TOPOLOGY"),
        "both-2": ({"tp": 2, "attention_dp": 2}, {"tensor_parallel_size": 2, "dp_size": 2}, ACCEPT),
        "both-filled": ({"tp": 2, "attention_dp": 2}, {}, ACCEPT),
    }
    for backend, role in everywhere():
        for name, (canonical, launch, expected) in cases.items():
            document = launch_document(backend, role, nextn=3, rates=LEGACY_RATES, canonical=canonical, launch=launch)
            yield Cell("environment", name, backend, role, document, expected)


def roles() -> Iterator[Cell]:
    """A role that the canonical configuration does not share, whatever the scheme."""
    schemes = {
        **SOUND,
        "none": block("none", {}),
        "no-speculation": None,
        "unknown": block("eagle", {}),
        "ngram-7": block("ngram", {"num_speculative_tokens": 7}),
        "tree": eagle3(tree_shape=[1, 4, 4], verify_token_budget=10),
    }
    for name, scheme in schemes.items():
        for backend, role in everywhere():
            for other in ROLES:
                if other != role:
                    document = launch_document(
                        backend,
                        role,
                        speculation=scheme,
                        rates=ABSENT if name in ("none", "no-speculation") else rates_of(3),
                        canonical={"worker_type": other},
                    )
                    yield Cell("environment", f"{name}-as-{other}", backend, role, document, "E_ROLE")


def rank_limits() -> Iterator[Cell]:
    """What a rank cannot do while it speculates."""
    shape = "refused for speculating, or for its shape where the shape is not known"
    extras: dict[str, tuple[dict[str, Any], str]] = {
        "decode-speedup": ({"decode_speedup_ratio": 2.0}, ""),
        "kv-groups": ({"kv_cache_groups": [{"name": "full"}]}, shape),
        "host-offload": ({"native_host_offload": {"num_blocks": 1024}}, shape),
    }
    for backend, role in everywhere():
        schemes = {"nextn": None, **{kind: SOUND[kind] for kind in RUNS.get(backend, ())}}
        for kind, scheme in schemes.items():
            for name, (extra, note) in extras.items():
                document = launch_document(
                    backend,
                    role,
                    speculation=scheme,
                    nextn=3 if scheme is None else 0,
                    rates=rates_of(3),
                    engine=extra,
                )
                yield Cell("environment", f"{name}-{kind}", backend, role, document, "E_ENGINE", note=note)
        document = launch_document(backend, role, engine={"decode_speedup_ratio": 2.0})
        yield Cell("environment", "decode-speedup-without-depth", backend, role, document, ACCEPT)


def precedence_cells() -> Iterator[Cell]:
    yield from two_faults()
    yield from unsupported_and_faulty()


def unsupported_and_faulty() -> Iterator[Cell]:
    """A backend that runs no scheme says so before it looks at what the scheme lacks."""
    lacks: dict[str, dict[str, Any]] = {
        "backend-depth_conflict": {"aic_nextn": 2},
        "backend-accept_missing": {"rates": ABSENT},
        "backend-capacity": {"blocks": ABSENT},
    }
    for name, lack in lacks.items():
        for role in ROLES:
            document = launch_document("trtllm", role, speculation=SOUND["mtp"], **{"rates": rates_of(3), **lack})
            yield Cell("check_order", name, "trtllm", role, document, "E_BACKEND")


def two_faults() -> Iterator[Cell]:
    """Two faults in one document: the one that is told."""
    mtp, mtp_6 = SOUND["mtp"], block("mtp", {"num_speculative_tokens": 6})
    unknown = block("eagle", {"num_speculative_tokens": 3})
    six_level_tree = eagle3(tree_shape=[1, 2, 1, 1, 1, 1])
    unread = block("dspark", {}, DRAFT_PATH)
    pairs: dict[str, tuple[str, dict[str, Any]]] = {
        "engine-launch_field": ("E_ENGINE", {"speculation": mtp, "aic_nextn": 6, "launch": {"dp_size": 0}}),
        "engine-perf_config": ("E_ENGINE", {"speculation": mtp, "aic_nextn": 6, "canonical": {"nextn": 1}}),
        "engine-kind": ("E_ENGINE", {"speculation": unknown, "aic_nextn": 0}),
        "launch_field-perf_config": (
            "E_LAUNCH_FIELD",
            {"speculation": mtp, "launch": {"startup_time": -1.0}, "canonical": {"nextn": 1}},
        ),
        "launch_field-kind": (
            "E_LAUNCH_FIELD",
            {"speculation": unknown, "launch": {"gpu_memory_utilization": 1.5}},
        ),
        "perf_config-topology": ("E_PERF_CONFIG", {"speculation": mtp, "canonical": {"nextn": 1, "pp": 2}}),
        "topology-role": ("E_TOPOLOGY", {"speculation": mtp, "canonical": {"pp": 2}, "role": "other"}),
        "role-kind": ("E_ROLE", {"speculation": unknown, "role": "other"}),
        "topology-kind": ("E_TOPOLOGY", {"speculation": unknown, "canonical": {"pp": 2}}),
        "tree-range": ("E_TREE", {"speculation": six_level_tree}),
        "kind-depth_conflict": ("E_KIND", {"speculation": unknown, "aic_nextn": 2}),
        "param-depth_conflict": ("E_PARAM", {"speculation": block("mtp", {}), "aic_nextn": 3}),
        "tree-depth_conflict": ("E_TREE", {"speculation": six_level_tree, "aic_nextn": 2}),
        "range-depth_conflict": ("E_RANGE", {"speculation": mtp_6, "aic_nextn": 3}),
        "runtime-depth_conflict": ("E_RUNTIME", {"speculation": unread, "aic_nextn": 3}),
        "range-accept_missing": ("E_RANGE", {"speculation": mtp_6, "rates": ABSENT}),
        "depth_conflict-accept_missing": (
            "E_DEPTH_CONFLICT",
            {"speculation": mtp, "aic_nextn": 2, "rates": ABSENT},
        ),
        "depth_conflict-accept_invalid": (
            "E_DEPTH_CONFLICT",
            {"speculation": mtp, "aic_nextn": 2, "rates": rates_of(2)},
        ),
        "depth_conflict-capacity": ("E_DEPTH_CONFLICT", {"speculation": mtp, "aic_nextn": 2, "blocks": ABSENT}),
        "accept_missing-capacity": (
            "E_ACCEPT_MISSING",
            {"speculation": mtp, "rates": ABSENT, "blocks": ABSENT},
        ),
        "accept_invalid-capacity": (
            "E_ACCEPT_INVALID",
            {"speculation": mtp, "rates": rates_of(2), "blocks": ABSENT},
        ),
    }
    for name, (expected, faults) in pairs.items():
        for backend in RUNS:
            for role in ROLES:
                options = {"rates": rates_of(3), **faults}
                if options.pop("role", None) is not None:
                    other = ROLES[(ROLES.index(role) + 1) % len(ROLES)]
                    options["canonical"] = {**options.get("canonical", {}), "worker_type": other}
                document = launch_document(backend, role, **options)
                yield Cell("check_order", name, backend, role, document, expected)
