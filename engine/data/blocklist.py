"""Leave out records that contain a listed text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ahocorasick_rs import AhoCorasick

from engine.base import files
from engine.base.errors import UsageError, shorten
from engine.base.masking import mask_text
from engine.base.quantities import format_count

_MOST_NAMED = 5
_LONGEST_NAME = 40


@dataclass(frozen=True)
class BlockedCounts:
    """How many records were left out, and how many of them contain each text, the most frequent
    first. A record with several texts counts for each. Secrets in a text are masked."""

    records: int = 0
    hits: dict[str, int] = field(default_factory=dict)


class RecordFilter:
    """Finds the records that contain a text of a block list, in any case, and counts them.

    Finds what ``engine.reward.scorer.Blocklist`` finds, in a time that does not grow with the
    number of texts.
    """

    def __init__(self, path: Path, texts: Iterable[str]) -> None:
        self.path, self._texts = path, list(dict.fromkeys(texts))
        self._finder = AhoCorasick([text.casefold() for text in self._texts])
        self._hits = Counter[str]()
        self._records = 0

    @classmethod
    def read(cls, path: Path) -> Self:
        """The texts of a file, one a line; empty lines and those that begin with ``#`` are ignored.

        UsageError for a file that cannot be read or has no texts.
        """
        try:
            lines = files.read_regular(path).decode("utf-8-sig").splitlines()
        except FileNotFoundError:
            raise UsageError(f"--blocklist {path} does not exist") from None
        except OSError as error:
            raise UsageError(f"--blocklist {path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--blocklist {path} is not text in UTF-8: {error}") from error
        texts = [text for line in lines if (text := line.strip()) and not text.startswith("#")]
        if not texts:
            raise UsageError(f"--blocklist {path} has no texts; write one a line")
        return cls(path, texts)

    @property
    def counts(self) -> BlockedCounts:
        """What was left out until now."""
        masked = Counter[str]()
        for text, count in self._hits.items():
            masked[mask_text(text)] += count
        return BlockedCounts(self._records, dict(masked.most_common()))

    @property
    def unmatched(self) -> list[str]:
        """The texts that no record contained until now, with secrets masked."""
        return [mask_text(text) for text in self._texts if text not in self._hits]

    def blocks(self, *texts: str) -> bool:
        """Whether a record of these texts is left out; if so, it is counted."""
        found = {
            index
            for text in texts
            for index, _, _ in self._finder.find_matches_as_indexes(
                text.casefold(), overlapping=True
            )
        }
        self._hits.update(self._texts[index] for index in sorted(found))
        self._records += bool(found)
        return bool(found)

    def format_lines(self) -> Iterator[str]:
        """What was left out and why, and which texts no record contained."""
        counts = self.counts
        if not counts.records:
            yield f"no record contains a text of {self.path}"
            return
        hits = [f"{_quote(text)} in {count}" for text, count in counts.hits.items()]
        left_out = f"left out {format_count(counts.records, 'record')} with a text of {self.path}"
        yield f"{left_out}: {_enumerate(hits)}"
        if unmatched := [_quote(text) for text in self.unmatched]:
            yield f"no record contains {_enumerate(unmatched)}"


def _quote(text: str) -> str:
    return repr(shorten(text, _LONGEST_NAME))


def _enumerate(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    rest = [f"{more} more"] if more > 0 else []
    return ", ".join([*names[:_MOST_NAMED], *rest])
