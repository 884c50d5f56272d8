"""A report as data: sections of tables, charts, findings and samples. Every text in it is plain."""

from __future__ import annotations

from dataclasses import dataclass

from engine.run.history.plot import BandKind, Plot


@dataclass(frozen=True)
class Table:
    """Rows of texts. ``head`` has a text for each column."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Problem:
    """A finding of the doctor, in words."""

    runs: str
    severity: str
    id: str
    title: str
    onset: str
    cause: str
    evidence: tuple[str, ...]
    fixes: tuple[str, ...]
    consequences: tuple[str, ...]


@dataclass(frozen=True)
class Chart:
    """``band`` is the kind of band that is drawn around the lines. ``notes`` say what the lines do
    not show, such as steps without a number."""

    name: str
    plot: Plot
    band: BandKind = "extremes"
    is_log: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Charts:
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Sample:
    """A rollout with its score. ``rank`` is its place among those of its step: best, median."""

    run: str
    step: int
    split: str
    rank: str
    score: str
    facts: tuple[tuple[str, str], ...]
    texts: tuple[tuple[str, str], ...]
    """Labels with texts: prompt, response, reference."""


Block = Table | Problem | Charts | Sample


@dataclass(frozen=True)
class Section:
    """``name`` is an identifier for links. ``lead``: sentences above the blocks."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    lead: tuple[str, ...] = ()


@dataclass(frozen=True)
class Legend:
    """A line of the charts and a column of the tables: a run, or runs that differ in seeds."""

    key: str
    color: int
    name: str
    runs: tuple[str, ...]
    seeds: str


@dataclass(frozen=True)
class Report:
    """``gaps`` name what the runs do not have, and what of it is therefore missing here.

    ``date`` is what the user gave, or empty: the same runs make the same report at any time.
    """

    title: str
    date: str
    legend: tuple[Legend, ...]
    gaps: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(c for block in blocks if isinstance(block, Charts) for c in block.charts)
