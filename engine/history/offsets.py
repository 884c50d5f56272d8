"""Places in a file, in order, found in any order."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence


class Offsets:
    """Sorted byte offsets: 8 bytes each."""

    def __init__(self) -> None:
        self._all = array("q")

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def replace(self, start: int, end: int, found: Sequence[int]) -> slice:
        """From ``start`` to before ``end`` there are exactly ``found``, which is sorted.

        Answers the places of those that they replace.
        """
        place = slice(bisect_left(self._all, start), bisect_left(self._all, end))
        self._all[place] = array("q", found)
        return place

    def at_or_after(self, offset: int) -> int | None:
        here = self._all
        place = bisect_left(here, offset)
        return here[place] if place < len(here) else None

    def before(self, offset: int) -> int | None:
        here = self._all
        place = bisect_left(here, offset)
        return here[place - 1] if place else None

    def count_before(self, offset: int) -> int:
        """How many lie before ``offset``."""
        return bisect_left(self._all, offset)

    def any_in(self, start: int, end: int) -> bool:
        """Whether one lies from ``start`` to before ``end``."""
        first = self.at_or_after(start)
        return first is not None and first < end
