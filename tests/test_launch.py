"""Launches, engine options and speculation blocks: what is resolved, and what is refused where."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forepass as fp
from forepass._core import LAUNCH_CODES
from steps import ROOT, refused

MTP = {"kind": "mtp", "params": {"depth": 3}}
CONFIG = "engine.timing_model.config"


def performance(**fields: Any) -> dict[str, Any]:
    base = {"model": "m", "system": "h200", "backend": "vllm", "worker_type": "aggregated"}
    return {**base, **fields}


def launch(speculation: dict[str, Any] | None = MTP, **engine: Any) -> dict[str, Any]:
    config = performance(**({} if speculation is None else {"speculation": speculation}))
    timing = {"kind": "external", "provider": "ais", "config": config}
    base = {"num_gpu_blocks": 4096, "aic_nextn_accept_rates": "0.8,0.6,0.4"}
    return {"engine": {**base, "timing_model": timing, **engine}}


def records() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "goldens/launch_matrix.json").read_text())[
        "records"
    ]
    return [record for record in found if record["surface"] == "launch"]


def test_a_launch_tells_its_numbers_and_where_they_come_from() -> None:
    report = fp.resolve_launch(launch())
    assert (report.ok, report.kind, report.depth, report.decode_width) == (True, "mtp", 3, 4)
    assert (report.tree, report.dynamic, report.aic_nextn) == (False, None, 3)
    assert report.acceptance_rates == [0.8, 0.6, 0.4]
    assert report.capacity == {"num_gpu_blocks": 4096, "explicit": True}
    assert report.provenance["depth"] == f"{CONFIG}.speculation.params.depth"
    assert report.provenance["decode_width"] == "depth + 1"
    assert (report.ignored, report.warnings, report.error) == ([], [], None)
    assert report.launch is not None
    assert report.launch["engine"]["aic_nextn"] == 3
    assert report.launch["engine"]["timing_model"]["config"]["nextn"] == 0
    assert report.raise_for_error() is report


def test_a_report_is_frozen_and_keeps_its_document_to_itself() -> None:
    report = fp.resolve_launch(launch())
    with pytest.raises(FrozenInstanceError):
        report.depth = 4  # type: ignore[misc]
    document = report.to_dict()
    document["provenance"].clear()
    assert report.provenance
    assert json.loads(report.to_json())["schema"] == "forepass.launch.v1"
    assert pickle.loads(pickle.dumps(report)) == report


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        ({**launch(), "engin": 1}, "E_LAUNCH_FIELD", "engin"),
        (launch(block_size=float("nan")), "E_ENGINE", "engine.block_size"),
        (launch({"kind": "medusa"}), "E_KIND", f"{CONFIG}.speculation.kind"),
        (
            launch({"kind": "mtp", "params": {"depth": 6}}),
            "E_RANGE",
            f"{CONFIG}.speculation.params.depth",
        ),
        (launch(aic_nextn=2), "E_DEPTH_CONFLICT", "engine.aic_nextn"),
        (launch(aic_nextn_accept_rates=None), "E_ACCEPT_MISSING", "engine.aic_nextn_accept_rates"),
    ],
)
def test_a_refused_launch_is_told_and_not_raised(
    document: dict[str, Any], code: str, path: str
) -> None:
    report = fp.resolve_launch(document)
    assert not report.ok
    assert report.launch is None
    assert report.error is not None
    assert (report.error["code"], report.error["path"]) == (code, path)
    error = refused(fp.LaunchError, report.raise_for_error)
    assert (error.code, error.path) == (code, path)
    assert str(error) == f"{path}: {report.error['message']}"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.code, copy.path) == (fp.LaunchError, code, path)


def test_a_launch_comes_as_mapping_text_bytes_or_file(tmp_path: Path) -> None:
    document = launch()
    text = json.dumps(document)
    json_file, yaml_file = tmp_path / "launch.json", tmp_path / "launch.yaml"
    json_file.write_text(text)
    yaml_file.write_text("engine: {aic_nextn: 3, aic_nextn_accept_rates: '0.8,0.6,0.4'}\n")
    expected = fp.resolve_launch(document)
    for source in (text, text.encode(), json_file, str(json_file)):
        assert fp.resolve_launch(source) == expected
    assert fp.resolve_launch(yaml_file).acceptance_rates == [0.8, 0.6, 0.4]
    yaml_file.write_text("engine:\n  block_size: 2\n  block_size: 4\n")
    error = refused(fp.ConfigError, lambda: fp.resolve_launch(yaml_file))
    assert error.code == "invalid_yaml"
    assert "line 3: `block_size` stands twice" in error.message
    # What is merged is no repetition: the key beside it wins, as YAML has it.
    yaml_file.write_text("engine:\n  <<: {block_size: 2, max_num_seqs: 7}\n  block_size: 4\n")
    engine = (fp.resolve_launch(yaml_file).launch or {})["engine"]
    assert (engine["block_size"], engine["max_num_seqs"]) == (4, 7)
    broken = fp.resolve_launch('{"engine": ')
    assert broken.error is not None
    assert broken.error["code"] == "E_LAUNCH_FIELD"


def test_what_is_no_document_at_all_is_raised(tmp_path: Path) -> None:
    assert refused(fp.ConfigError, lambda: fp.resolve_launch(tmp_path / "no")).code == "unreadable"
    assert refused(fp.ConfigError, lambda: fp.resolve_launch(b"\xff")).code == "invalid_json"
    error = refused(fp.ConfigError, lambda: fp.resolve_launch({"engine": {"backend": object()}}))
    assert error.path == "engine.backend"
    refused(fp.ConfigError, lambda: fp.resolve_launch(3))  # type: ignore[arg-type]


def test_every_accepted_launch_of_the_matrix_written_and_read_is_the_same() -> None:
    accepted = [record for record in records() if record["after"]["outcome"] == "accept"]
    assert len(accepted) > 800
    for record in accepted:
        once = fp.resolve_launch(record["document"]).launch
        text = json.dumps(once)
        again = fp.resolve_launch(text)
        assert json.dumps(again.launch) == text, record["id"]
        assert again.depth == record["after"]["depth"]


def test_the_role_changes_nothing_of_the_depth() -> None:
    for role in ("aggregated", "prefill", "decode"):
        document = launch(worker_type=role)
        document["engine"]["timing_model"]["config"]["worker_type"] = role
        assert fp.resolve_launch(document).depth == 3


SGLANG = "--speculative-algorithm EAGLE3 --speculative-draft-model-path a/b"
SGLANG += " --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"


@pytest.mark.parametrize(
    ("engine", "options", "kind", "source"),
    [
        ("sglang", SGLANG, "eagle3", "--speculative-num-steps"),
        ("sglang", SGLANG.split(), "eagle3", "--speculative-num-steps"),
        (
            "vllm",
            {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
            "ngram",
            "speculative_config.num_speculative_tokens",
        ),
    ],
)
def test_engine_options_resolve_in_every_form(
    engine: str, options: Any, kind: str, source: str
) -> None:
    report = fp.resolve_engine_options(engine, options, strict=True)
    assert (report.ok, report.kind, report.depth, report.decode_width) == (True, kind, 3, 4)
    assert report.provenance["depth"] == source
    assert report.launch is None


def test_unknown_engine_options_are_warned_of_or_refused() -> None:
    words = [*SGLANG.split(), "--speculative-num-stepz", "4"]
    lenient = fp.resolve_engine_options("sglang", words)
    assert (lenient.ok, len(lenient.warnings)) == (True, 1)
    strict = fp.resolve_engine_options("sglang", words, strict=True)
    assert strict.error is not None
    assert (strict.error["code"], strict.error["path"]) == ("E_PARAM", "--speculative-num-stepz")
    error = refused(fp.LaunchError, lambda: fp.resolve_engine_options("vlm", words))
    assert error.code == "E_BACKEND"


def test_a_speculation_block_tells_what_it_drafts_and_what_is_replayed() -> None:
    # Root and 1 + 4 + 4 nodes.
    tree = {"kind": "eagle3", "params": {"tree_shape": [1, 4, 4]}, "draft_model_path": "a/b"}
    draft = fp.resolve_speculation(tree)
    assert (draft.depth, draft.decode_width, draft.tree) == (3, 10, True)
    assert draft.provenance["depth"] == "params.tree_shape"
    assert refused(fp.SpeculationError, lambda: fp.replay_depth(tree)).code == "E_TREE"
    assert fp.replay_depth(MTP) == 3
    assert fp.replay_depth({"kind": "none"}) == 0
    for block, code in [
        ({"kind": "medusa"}, "E_KIND"),
        ({"kind": "mtp"}, "E_PARAM"),
        ({}, "E_PARAM"),
        ({"kind": "dflash", "draft_model_path": "a/b"}, "E_RUNTIME"),
    ]:
        call = lambda block=block: fp.resolve_speculation(block)  # noqa: E731
        assert refused(fp.SpeculationError, call).code == code


def test_acceptance_has_one_meaning_in_all_its_forms() -> None:
    # 0.8, then 0.4 of all is half of those that came so far; nothing comes after nothing.
    assert fp.acceptance_from_unconditional([0.8, 0.4, 0.0, 0.0]) == [0.8, 0.5, 0.0, 0.0]
    assert fp.acceptance_from_mean(1.5, 3) == [1.0, 0.5, 0.0]
    # 1 + 0.8 + 0.8 * 0.5
    assert fp.expected_progress([0.8, 0.5]) == pytest.approx(2.2, rel=1e-15)
    assert fp.decode_rows(2, 2) == 6
    nan = float("nan")
    for call, code, path in [
        (lambda: fp.acceptance_from_unconditional([0.4, 0.8]), "E_ACCEPT_INVALID", "[1]"),
        (lambda: fp.acceptance_from_mean(3.1, 3), "E_ACCEPT_INVALID", ""),
        (lambda: fp.acceptance_from_mean(nan, 3), "E_ACCEPT_INVALID", ""),
        (lambda: fp.acceptance_from_mean(1.0, 6), "E_RANGE", ""),
        (lambda: fp.expected_progress([True]), "E_ACCEPT_INVALID", "[0]"),
        (lambda: fp.decode_rows(2**31, 1), "E_RANGE", ""),
        (lambda: fp.decode_rows(-1, 1), "E_RANGE", "batch"),
    ]:
        error = refused(fp.SpeculationError, call)
        assert (error.code, error.path) == (code, path)


ROLE_OPTIONS = {
    "num_gpu_blocks": 4096,
    "ais_perf_config": performance(worker_type="decode", tp=2),
    "speculation": {**MTP, "expected_accepted_tokens": 1.5, "seed": 7},
}


def test_a_role_of_a_deployment_becomes_a_launch() -> None:
    made = fp.materialize_engine_launch_config(
        "vllm", "0.19.0", {"tp": 2, "dp_size": 1}, ROLE_OPTIONS, "decode"
    )
    engine = made["engine"]
    assert (engine["aic_nextn"], engine["aic_nextn_accept_rates"]) == (3, "1,0.5,0")
    assert (engine["worker_type"], engine["aic_mtp_seed"]) == ("decode", 7)
    assert (made["tensor_parallel_size"], made["dp_size"]) == (2, 1)
    assert made["num_gpu_blocks_is_explicit"] is True
    config = engine["timing_model"]["config"]
    assert (config["nextn"], config["backend_version"]) == (0, "0.19.0")
    metadata = fp.speculation_report_metadata(made)
    assert metadata == fp.speculation_report_metadata(fp.resolve_launch(made))
    assert (metadata["requested_method"], metadata["num_speculative_tokens"]) == ("mtp", 3)
    assert (metadata["expected_accepted_tokens"], metadata["seed"]) == (1.5, 7)
    assert metadata["capacity_source"] == "explicit_fixed"


def test_an_estimate_of_the_capacity_learns_what_the_launch_says() -> None:
    report = fp.resolve_launch({"gpu_memory_utilization": 0.9, "engine": {"max_num_seqs": None}})
    # 64 tokens a block and 8,192 in a batch are vLLM's defaults here; sequences are unbounded.
    assert fp.capacity_estimation_options(report) == {
        "block_size": 64,
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.9,
    }
    refusals = [
        fp.resolve_launch({"engine": 3}),
        fp.resolve_engine_options("vllm", []),
        {"engine": 3},
    ]
    for refusal in refusals:
        call = lambda refusal=refusal: fp.capacity_estimation_options(refusal)  # noqa: E731
        refused(fp.LaunchError, call)


def test_a_role_that_contradicts_its_deployment_is_refused() -> None:
    def make(role: str, **options: Any) -> fp.ForepassError:
        raw = {**ROLE_OPTIONS, **options}
        return refused(
            fp.LaunchError,
            lambda: fp.materialize_engine_launch_config("vllm", None, None, raw, role),
        )

    assert make("prefill").code == "E_ROLE"
    assert (make("decode", nextn=3).code, make("decode", nextn=3).path) == (
        "E_DEPTH_CONFLICT",
        "nextn",
    )
    assert make("encode").code == "E_ROLE"
    assert make("decode", engine_type="sglang").code == "E_BACKEND"
    assert make("decode", block_size=object()).code == "E_LAUNCH_FIELD"


def test_a_performance_model_is_put_into_normal_form_for_its_role() -> None:
    spelled = {**performance(worker_type="prefill", tp_size=2), "model_path": "m"}
    del spelled["model"]
    config = fp.canonical_performance_config(spelled, worker_type="prefill")
    assert (config["model"], config["tp"], config["nextn"]) == ("m", 2, 0)
    assert fp.canonical_performance_config(config, worker_type="prefill") == config
    with pytest.raises(ValueError, match="worker_type") as caught:
        fp.canonical_performance_config(config, worker_type="decode")
    assert isinstance(caught.value, fp.LaunchError)
    assert caught.value.code == "E_ROLE"


def test_engine_args_have_one_spelling_of_a_depth() -> None:
    raw = {"nextn": 3, "nextn_accepted": 1.5, "tp": 2}
    normal = fp.normalize_speculation_engine_args(raw, role="decode")
    assert normal == {"aic_nextn": 3, "aic_nextn_accept_rates": "1,0.5,0", "tp": 2}
    assert raw["nextn"] == 3
    assert fp.normalize_speculation_engine_args(normal, role="decode") == normal
    assert fp.normalize_speculation_engine_args({"nextn": None}, role="decode") == {}
    call = lambda: fp.normalize_speculation_engine_args({"aic_mtp_seed": 7}, role="decode")  # noqa: E731
    assert refused(fp.LaunchError, call).path == "aic_mtp_seed"


NAMES = st.sampled_from(
    "engine timing_model kind provider config speculation params depth aic_nextn "
    "aic_nextn_accept_rates num_gpu_blocks backend worker_type dp_size nextn".split()
) | st.text(max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def leads_into(path: str, document: Any) -> bool:
    """Whether a path names a value of the document, or one that an object of it does not have."""
    if not path:
        return True
    if isinstance(document, dict):
        for name in sorted(document, key=len, reverse=True):
            rest = path.removeprefix(name)
            if rest != path and (not rest or rest[0] in ".["):
                return leads_into(rest.removeprefix("."), document[name])
        return not {".", "["} & set(path)
    if isinstance(document, list) and path.startswith("["):
        index, _, rest = path[1:].partition("]")
        return int(index) < len(document) and leads_into(
            rest.removeprefix("."), document[int(index)]
        )
    return False


@settings(max_examples=200, derandomize=True, deadline=None)
@given(document=st.dictionaries(NAMES, JSON, max_size=4))
def test_no_document_raises_anything_undocumented(document: dict[str, Any]) -> None:
    for resolve in (
        fp.resolve_launch,
        lambda options: fp.resolve_engine_options("vllm", options),
        lambda options: fp.resolve_engine_options("sglang", options, strict=True),
    ):
        try:
            report = resolve(document)
        except fp.ConfigError:
            continue  # an integer of more than 64 bits, or text that is not Unicode
        assert report.ok == (report.error is None)
        if report.error is not None:
            assert report.error["code"] in LAUNCH_CODES
            assert report.error["message"]
    for block in (
        fp.resolve_speculation,
        fp.replay_depth,
        lambda raw: fp.normalize_speculation_engine_args(raw, role="decode"),
        lambda raw: fp.canonical_performance_config(raw, worker_type="decode"),
        lambda raw: fp.materialize_engine_launch_config("vllm", None, None, raw, "decode"),
    ):
        try:
            block(document)
        except (fp.ConfigError, fp.SpeculationError, fp.LaunchError) as error:
            assert error.code  # noqa: PT017 (either way is right)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    path=st.sampled_from(["engine", "engine.timing_model", CONFIG, f"{CONFIG}.speculation", ""]),
    name=NAMES,
    value=JSON,
)
def test_the_path_of_an_error_leads_into_the_document(path: str, name: str, value: Any) -> None:
    document = launch()
    place: Any = document
    for key in path.split(".") if path else []:
        place = place[key]
    place[name] = value
    try:
        report = fp.resolve_launch(document)
    except fp.ConfigError:
        return
    if report.error is not None:
        assert leads_into(report.error["path"], document), report.error


def test_aliases_of_yaml_that_stand_for_billions_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    error = refused(fp.ConfigError, lambda: fp.resolve_launch(path))
    assert error.code == "invalid_yaml"
    assert "aliases expand to over 1,000,000 values" in error.message
    path.write_text("base: &base {tp: 2}\nengine: *base\n")
    assert fp.resolve_launch(path).error is not None
