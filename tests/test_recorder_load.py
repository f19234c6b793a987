"""The loads of the recorder: drawn from a seed, within bounds, as their distributions say."""

import statistics

import pytest

from recorder.load import SPANS, Load, LogNormal
from recorder.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_gives_the_same_load_every_time_and_another_seed_another(name: str) -> None:
    load = SCENARIOS[name].load
    assert load.requests(7, 5.0, 2048) == load.requests(7, 5.0, 2048)
    assert load.requests(7, 5.0, 2048) != load.requests(8, 5.0, 2048)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_request_fits_the_model_and_arrives_in_order_within_the_time(name: str) -> None:
    scenario = SCENARIOS[name]
    requests = scenario.load.requests(0, 40.0, 2048)
    arrivals = [request.arrival_s for request in requests]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] > 0.0
    assert arrivals[-1] < 40.0
    for request in requests:
        assert request.prompt
        assert all(3 <= token < 2048 for token in request.prompt)
        assert request.output_tokens >= 1
        assert len(request.prompt) + request.output_tokens <= 4096  # the engines' max_model_len


def test_requests_follow_the_stated_distributions() -> None:
    lengths = LogNormal(median=100, sigma=0.5, shortest=1, longest=100_000)
    load = Load((2.0, 6.0), lengths, lengths, prefix_share=0.25, prefix_tokens=0)
    requests = load.requests(3, 800.0, 2048)
    # Four spans of 100 s at 2/s and four at 6/s: 3200 expected, whose Poisson deviation is 57.
    assert abs(len(requests) - 3200) < 4 * 57
    span_s = 800.0 / SPANS
    in_first = sum(request.arrival_s < span_s for request in requests)
    in_second = sum(span_s <= request.arrival_s < 2 * span_s for request in requests)
    assert abs(in_first - 200) < 4 * 14.1
    assert abs(in_second - 600) < 4 * 24.5
    # The logarithm is normal around log 100 with deviation 0.5, so its median is known to
    # 1.25 * 0.5 / sqrt(3200), about 1.1 %.
    assert statistics.median(len(r.prompt) for r in requests) == pytest.approx(100, rel=0.05)
    assert statistics.median(r.output_tokens for r in requests) == pytest.approx(100, rel=0.05)


def test_the_stated_share_of_requests_opens_with_a_shared_prefix() -> None:
    lengths = LogNormal(median=10, sigma=0.0, shortest=10, longest=10)
    load = Load((5.0,), lengths, lengths, prefix_share=0.25, prefix_tokens=40)
    requests = load.requests(1, 400.0, 2048)
    opened = [request.prompt[:40] for request in requests if len(request.prompt) == 50]
    assert len(opened) + sum(len(request.prompt) == 10 for request in requests) == len(requests)
    # 2000 expected; the deviation of the share is sqrt(0.25 * 0.75 / 2000), about 1 %.
    assert len(opened) / len(requests) == pytest.approx(0.25, abs=0.04)
    assert len({tuple(prefix) for prefix in opened}) == 4
