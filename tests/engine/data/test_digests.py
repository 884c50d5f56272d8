"""A set of digests answers as a set of Python does."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from engine.data.prepare_task import DigestSet

FEW = st.integers(0, 40) | st.integers(2**64 - 4, 2**64 - 1)


@given(st.lists(FEW))
def test_it_says_which_digests_are_new(values: list[int]) -> None:
    digests, known = DigestSet(), set[int]()
    for value in values:
        kept = value or 1
        assert digests.add(value.to_bytes(8, "little")) == (kept not in known)
        known.add(kept)
    assert len(digests) == len(known)


def test_it_remembers_all_of_many() -> None:
    digests = DigestSet()
    many = [hashlib.sha256(str(number).encode()).digest() for number in range(20_000)]
    assert all(digests.add(digest) for digest in many)
    assert not any(digests.add(digest) for digest in many)
