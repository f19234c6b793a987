"""The load of a scenario: which requests arrive when, drawn from a seed."""

import random
from dataclasses import dataclass
from typing import Any

# A recording is this many spans of equal length, which take the rates in turn, over and over.
SPANS = 8
SHARED_PREFIXES = 4


@dataclass(frozen=True)
class LogNormal:
    """A length in tokens: the exponential of a normal variate, rounded and kept within bounds."""

    median: int
    sigma: float
    shortest: int
    longest: int

    def draw(self, random_numbers: random.Random) -> int:
        """One length."""
        length = round(self.median * random_numbers.lognormvariate(0.0, self.sigma))
        return min(max(length, self.shortest), self.longest)


@dataclass(frozen=True)
class Request:
    """One request: when it arrives, its prompt, and how many tokens it is made to generate."""

    arrival_s: float
    prompt: list[int]
    output_tokens: int


@dataclass(frozen=True)
class Load:
    """Poisson arrivals at changing rates, and the distributions of the requests' lengths."""

    rates_per_s: tuple[float, ...]
    prompt_tokens: LogNormal
    output_tokens: LogNormal
    prefix_share: float
    """The share of requests whose prompt opens with one of the shared prefixes."""
    prefix_tokens: int

    def requests(self, seed: int, seconds: float, vocabulary: int) -> list[Request]:
        """All requests of a recording, in the order of their arrival."""
        random_numbers = random.Random(seed)

        def tokens(count: int) -> list[int]:
            return [random_numbers.randrange(3, vocabulary) for _ in range(count)]

        prefixes = [tokens(self.prefix_tokens) for _ in range(SHARED_PREFIXES)]
        requests = []
        for arrival_s in self._arrivals(random_numbers, seconds):
            opening = random_numbers.choice(prefixes)
            shares = random_numbers.random() < self.prefix_share
            rest = tokens(self.prompt_tokens.draw(random_numbers))
            prompt = opening + rest if shares else rest
            requests.append(Request(arrival_s, prompt, self.output_tokens.draw(random_numbers)))
        return requests

    def _arrivals(self, random_numbers: random.Random, seconds: float) -> list[float]:
        """A Poisson process of a constant rate in each span; starting anew at each is the same."""
        arrivals = []
        span_s = seconds / SPANS
        for span in range(SPANS):
            rate = self.rates_per_s[span % len(self.rates_per_s)]
            elapsed_s = random_numbers.expovariate(rate)
            while elapsed_s < span_s:
                arrivals.append(span * span_s + elapsed_s)
                elapsed_s += random_numbers.expovariate(rate)
        return arrivals

    def description(self) -> dict[str, Any]:
        """What the provenance says of it."""
        return {
            "arrivals": f"Poisson, its rate constant in each of {SPANS} equal spans of time",
            "rates_per_s": self.rates_per_s,
            "prompt_tokens": {"distribution": "log-normal", **vars(self.prompt_tokens)},
            "output_tokens": {"distribution": "log-normal", **vars(self.output_tokens)},
            "shared_prefixes": {
                "number": SHARED_PREFIXES,
                "share_of_requests": self.prefix_share,
                "tokens": self.prefix_tokens,
            },
            "tokens": "uniform over the vocabulary, without its first three",
        }
