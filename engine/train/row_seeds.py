"""Random numbers of a rollout, which do not depend on what else is generated in its batch.

A run that was killed and resumed must draw what the uninterrupted one drew. Requests of a step
reach the server in no fixed order, so a generator shared by all of them would not repeat.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b


class RowSeeds:
    """One seed per request: of run seed, step of the weights, prompt, and how often it came before.

    The rollouts of one prompt are interchangeable: which of them gets which seed follows the order
    of their requests, the set of seeds does not.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.step = 0
        self._came: Counter[bytes] = Counter()

    def start_step(self, step: int) -> None:
        """New weights: every prompt counts from its first rollout again."""
        self.step = step
        self._came.clear()

    def next(self, prompt: Sequence[int]) -> int:
        """The seed of one more rollout of ``prompt``, 0 <= seed < 2**63."""
        tokens = array("q", prompt).tobytes()
        occurrence = self._came[tokens]
        self._came[tokens] += 1
        # Python's own hash() is salted differently in every process.
        digest = blake2b(f"{self.seed} {self.step} {occurrence} ".encode() + tokens, digest_size=8)
        return int.from_bytes(digest.digest(), "big") >> 1
