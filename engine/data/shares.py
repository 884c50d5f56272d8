"""The order of rows that are mixed from several files by shares."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


class MixedOrder:
    """An endless sequence of rows: of its beginning, each file has its share to within one row.

    A file is passed through in a shuffled order of its own, another one in each pass, as often as
    its share needs. The order follows from ``seed`` alone, so a resumed run continues it.

    ``shares`` are relative: ``[4, 1]`` is ``[0.8, 0.2]``. A file without rows must have share 0.
    ``taken`` says how many rows of each file came before; its passes go on from there.
    """

    def __init__(
        self,
        rows: Sequence[int],
        shares: Sequence[float],
        seed: int,
        taken: Sequence[int] | None = None,
    ) -> None:
        total = sum(shares)
        if len(rows) != len(shares) or total <= 0:
            raise ValueError(f"{len(shares)} shares that sum to {total} for {len(rows)} files")
        if any(share > 0 and count == 0 for count, share in zip(rows, shares, strict=True)):
            raise ValueError("a file without rows has a share")
        self.rows = tuple(rows)
        self.shares = tuple(share / total for share in shares)
        self.seed = seed
        self._before = tuple(taken or [0] * len(rows))
        self._permutation = lru_cache(maxsize=4 * len(rows))(self._shuffled)

    def __getitem__(self, position: int) -> tuple[int, int]:
        """The file and the row in it."""
        files, earlier, counts = self._block
        block, place = divmod(position, len(files))
        file = int(files[place])
        number = self._before[file] + block * int(counts[file]) + int(earlier[place])
        turn, place = divmod(number, self.rows[file])
        return file, int(self._permutation(file, turn)[place])

    def taken(self, positions: int) -> tuple[int, ...]:
        """How many rows of each file came before a position."""
        files, _, counts = self._block
        blocks, rest = divmod(positions, len(files))
        begun = np.bincount(files[:rest], minlength=len(counts))
        return tuple(int(n) for n in np.array(self._before) + blocks * counts + begun)

    @cached_property
    def _block(self) -> tuple[Indices, Indices, Indices]:
        """The files of as many positions as there are rows, how often each file came before, and
        how often it comes in all."""
        length = sum(self.rows)
        files, earlier = np.empty(length, np.int64), np.empty(length, np.int64)
        taken = np.zeros(len(self.rows), np.int64)
        for place, file in zip(range(length), spread(self.shares), strict=False):
            files[place], earlier[place] = file, taken[file]
            taken[file] += 1
        return files, earlier, taken

    def _shuffled(self, file: int, turn: int) -> Indices:
        random = np.random.default_rng((self.seed, file, turn))
        return random.permutation(self.rows[file]).astype(np.int64)


class PhasedOrder:
    """Orders one after the other; the last one has no end.

    ``phases`` are the number of positions and the shares of each. A new phase continues the pass
    over a file, so no row is repeated before all other rows of its file were used.
    """

    def __init__(
        self, rows: Sequence[int], phases: Sequence[tuple[int, Sequence[float]]], seed: int
    ) -> None:
        self.rows = tuple(rows)
        self._starts, self._orders = list[int](), list[MixedOrder]()
        start, taken = 0, (0,) * len(rows)
        for positions, shares in phases:
            order = MixedOrder(rows, shares, seed, taken)
            self._starts.append(start)
            self._orders.append(order)
            start, taken = start + positions, order.taken(positions)

    def __getitem__(self, position: int) -> tuple[int, int]:
        """The file and the row in it."""
        phase = bisect_right(self._starts, position) - 1
        return self._orders[phase][position - self._starts[phase]]


def spread(shares: Sequence[float]) -> Iterator[int]:
    """Yield the number of a share for each position, for ever, as evenly as possible.

    After ``n`` positions each has come ``share x n`` times, to less than 1: Tijdeman's solution of
    the chairman assignment problem (Discrete Mathematics 32, 1980). ``shares`` sum to 1.
    """
    parts = [(number, share) for number, share in enumerate(shares) if share > 0]
    slack = 1 / (2 * len(parts) - 2) if len(parts) > 1 else 0.0
    taken = dict.fromkeys((number for number, _ in parts), 0)
    for count in itertools.count(1):
        due = [
            ((1 - slack - (share * count - taken[number])) / share, number)
            for number, share in parts
            if share * count - taken[number] >= slack - 1e-9
        ]
        _, chosen = min(due)
        taken[chosen] += 1
        yield chosen
