"""How long to wait before a judge call is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass

from engine.judge.base import ErrorKind

RETRYABLE: frozenset[ErrorKind] = frozenset(
    {"rate_limit", "timeout", "connection", "parse", "server"}
)


@dataclass(frozen=True)
class Backoff:
    """Exponential waits with jitter, in seconds; longer after a rate limit.

    A server's Retry-After replaces the rate-limit wait, up to ``longest_s``.
    """

    first_s: float = 1.0
    rate_limit_s: float = 15.0
    longest_s: float = 90.0
    jitter: float = 0.3

    def wait_s(self, attempt: int, kind: ErrorKind, retry_after_s: float | None) -> float:
        """Seconds to wait after the failed ``attempt`` (counted from 1)."""
        wait = self.first_s * 2.0 ** (attempt - 1)
        if kind == "rate_limit":
            wait = self.rate_limit_s * attempt if retry_after_s is None else retry_after_s
        return min(self.longest_s, wait) * (1 + random.uniform(0, self.jitter))
