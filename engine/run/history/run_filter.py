"""Select runs by a filter: by columns of the list first, by files only where these decide."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

from engine.base.errors import nearest
from engine.base.jsonl import number
from engine.base.query import (
    Condition,
    Tree,
    Word,
    check_condition,
    compare,
    compare_any,
    compare_number,
    conditions,
    field_table,
    holds,
    parse,
    unknown_field,
    words,
)
from engine.base.text import format_config_value
from engine.run import columns
from engine.run.columns import Column, RunRow
from engine.run.history import metrics
from engine.run.history.train_log import newest_names, newest_value
from engine.run.index import stamp
from engine.run.run import SETTINGS, Run, exists

CONFIG = "config."

_METRICS = frozenset(v for k, v in vars(metrics).items() if k.isupper() and isinstance(v, str))
_LOG = "train_log.jsonl"
_ALIKE = 0.75
"""Similarity from which a name is a field with a typing mistake, rather than a config key."""
_HEALTH_WORDS = frozenset({"healthy", "unhealthy"})


class RunFiles:
    """Values from the files of runs that filters test; read again only if a file changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cache: dict[tuple[str, str], tuple[str, tuple[object, ...]]] = {}
        self.present: set[str] = set()
        """Config keys and metrics that some run had."""
        self.asked: set[str] = set()
        self.other_names: set[str] = set()
        """Keys and metrics of the runs that lack the tested one."""

    def answer(self, run: RunRow, test: Condition) -> bool:
        values = self.values(run, test.name)
        if _config_key(test.name) is not None:
            return any(compare_any(test, value) for value in values)
        return compare_number(test, number(values[0]) if values else None)

    def values(self, run: RunRow, name: str) -> tuple[object, ...]:
        """Those of a config key, of all keys that end so, or the last one of a metric."""
        self.asked.add(name)
        key = _config_key(name)
        if key is not None:
            is_apart = exists(f"{self._root}/{run.id}/{SETTINGS}")
            return self._cached(run, name, SETTINGS if is_apart else "manifest.json", key)
        return self._cached(run, name, _LOG, metrics.canonical(name))

    def column(self, name: str) -> Column:
        """A column of the last value of a metric, or of a config key by its end."""
        return Column(
            name=name,
            about="",
            kind="text",
            key=None,
            value=lambda run: tuple(map(format_config_value, self.values(run, name))),
        )

    def missing(self, name: str) -> str:
        """The config key or metric, with the nearest one, that was asked for and that no run has;
        else empty."""
        if name in self.present or name not in self.asked:
            return ""
        key = _config_key(name)
        close = nearest(key or metrics.canonical(name), self.other_names)
        hint = f"; did you mean '{close}'?" if close else ""
        return (f"config key '{key}'" if key else f"value of '{name}'") + hint

    def _cached(self, run: RunRow, field: str, file: str, name: str) -> tuple[object, ...]:
        try:
            current = stamp(f"{self._root}/{run.id}/{file}")
        except OSError:
            return ()
        cached = self._cache.get((run.id, field))
        if cached is None or cached[0] != current:
            cached = self._cache[run.id, field] = (current, self._read(run, file, name))
        if cached[1]:
            self.present.add(field)
        return cached[1]

    def _read(self, run: RunRow, file: str, name: str) -> tuple[object, ...]:
        directory = Run(self._root / run.id)
        if file == _LOG:
            value = newest_value(directory.train_log, name)
            if value is None:
                self.other_names.update(newest_names(directory.train_log))
            return () if value is None else (value,)
        config = directory.read_config()
        keys = [name] if name in config else [key for key in config if key.endswith(f".{name}")]
        if not keys:
            self.other_names.update(config)
        return tuple(config[key].value for key in keys)


class RunFilter:
    """A checked filter of runs. UsageError, naming the character, for one that makes no sense."""

    def __init__(self, text: str) -> None:
        self._fields = field_table(columns.COLUMNS)
        self._searched = [column for column in columns.COLUMNS if column.kind == "text"]
        self.tree: Tree = parse(text)
        for test in conditions(self.tree):
            self._check(test)

    @property
    def asks_health(self) -> bool:
        """Whether the runs need their health before they are compared with the filter."""
        asked = (test.name.lower() == "health" for test in conditions(self.tree))
        return any(asked) or any(w.text.lower() in _HEALTH_WORDS for w in words(self.tree))

    def by_list(self, run: RunRow, now: float) -> bool | None:
        """Evaluate the filter by the columns of the list; None: the run's files decide."""
        return holds(self.tree, lambda leaf: self._listed(leaf, run, now))

    def matches(self, run: RunRow, files: RunFiles, now: float) -> bool:
        def leaf(part: Word | Condition) -> bool:
            answer = self._listed(part, run, now)
            if answer is None:
                assert isinstance(part, Condition)
                answer = files.answer(run, part)
            return answer

        answer = self.by_list(run, now)
        return bool(holds(self.tree, leaf)) if answer is None else answer

    def select(self, runs: Iterable[RunRow], files: RunFiles) -> Iterator[RunRow]:
        """The runs that pass, in their order, each read when it is asked for."""
        now = time.time()
        return (run for run in runs if self.matches(run, files, now))

    def remark(self, files: RunFiles, *, of_keys: bool = False) -> str | None:
        """Name a config key or metric that no run has: most likely a typing mistake.

        ``of_keys``: only a config key. A metric may still come.
        """
        names = (test.name for test in conditions(self.tree))
        return next(
            (
                f"no matching run has a {missing}"
                for name in names
                if (_config_key(name) or not of_keys) and (missing := files.missing(name))
            ),
            None,
        )

    def _check(self, test: Condition) -> None:
        field = self._fields.get(test.name.lower())
        if field is not None:
            check_condition(test, field.kind, field.choices)
            return
        if _config_key(test.name) is None:
            check_condition(test, "number")
            return
        # A name is the end of a config key unless it is most like that of a field.
        names = [*self._fields, *sorted(_METRICS), *metrics.ALIASES]
        if not _is_prefixed(test.name) and get_close_matches(test.name.lower(), names, 1, _ALIKE):
            known = ", ".join(column.name for column in columns.COLUMNS)
            raise unknown_field(test, names, f"{known}, config keys, metrics such as reward/mean")

    def _listed(self, leaf: Word | Condition, run: RunRow, now: float) -> bool | None:
        if isinstance(leaf, Word):
            word = leaf.text.casefold()
            values = (column.value(run) for column in self._searched)
            texts = (text for value in values if isinstance(value, tuple) for text in value)
            return any(word in text.casefold() for text in texts)
        field = self._fields.get(leaf.name.lower())
        return None if field is None else compare(leaf, field.kind, field.value(run), now)


def _config_key(name: str) -> str | None:
    """The config key, or its end, that a name stands for; None for a metric."""
    if _is_prefixed(name):
        return name[len(CONFIG) :]
    is_metric = "/" in name or name in _METRICS or name in metrics.ALIASES
    return None if is_metric else name


def _is_prefixed(name: str) -> bool:
    return name.lower().startswith(CONFIG)
