"""A set of digests for millions of records."""

from __future__ import annotations

from array import array

_FIRST_SIZE = 1 << 12


class DigestSet:
    """Remembers the first 8 bytes of digests, in 12 to 24 bytes each: a ``set`` takes about 100.

    Of n different digests, two are taken for one with a probability of n^2 / 2^65: 3e-8 for a
    million, 3e-4 for a hundred million.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _FIRST_SIZE))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, digest: bytes) -> bool:
        """Add a digest of at least 8 bytes. Returns whether it is new."""
        value = int.from_bytes(digest[:8], "little") or 1  # 0 marks a free slot.
        place = _find_place(self._slots, value)
        if self._slots[place] == value:
            return False
        self._slots[place] = value
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            self._grow()
        return True

    def _grow(self) -> None:
        slots = array("Q", bytes(16 * len(self._slots)))
        for value in self._slots:
            if value:
                slots[_find_place(slots, value)] = value
        self._slots = slots


def _find_place(slots: array[int], value: int) -> int:
    """The slot of a value, or the free one where it belongs: linear probing (Knuth, The Art of
    Computer Programming 3, section 6.4, algorithm L). The number of slots is a power of 2."""
    last = len(slots) - 1
    place = value & last
    while slots[place] not in (0, value):
        place = (place + 1) & last
    return place
