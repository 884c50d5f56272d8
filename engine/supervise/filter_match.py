"""Choosing runs by a filter: by what the list knows first, by their files only where it matters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from engine.base import files, jsonl
from engine.base.errors import nearest
from engine.history.metrics import canonical
from engine.history.newest import newest_names, newest_value
from engine.runs.index import stamp
from engine.runs.registry import RunInfo
from engine.runs.rundir import RunDir
from engine.supervise.filter_fields import (
    FIELDS,
    check,
    compare_config,
    compare_number,
    config_key,
    listed,
)
from engine.supervise.filters import Condition, Tree, Word, conditions, holds, parse

_ABSENT = object()


class RunFiles:
    """What filters asked of the files of a folder's runs; read again only where a file changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[tuple[str, str], tuple[str, Any]] = {}
        self.found: set[str] = set()
        """Config keys and metrics that some run had."""
        self.others: set[str] = set()
        """What those runs have that lacked what was asked for."""

    def answer(self, run: RunInfo, test: Condition) -> bool:
        key = config_key(test)
        if key is not None:
            value = self._cached(run, test.name, "manifest.json", key)
            return value is not _ABSENT and compare_config(test, value)
        name = canonical(test.name)
        return compare_number(test, self._cached(run, test.name, "train_log.jsonl", name))

    def _cached(self, run: RunInfo, field: str, file: str, name: str) -> Any:
        try:
            now = stamp(f"{self._root}/{run.id}/{file}")
        except OSError:
            return _ABSENT if file == "manifest.json" else None
        known = self._read.get((run.id, field))
        if known is None or known[0] != now:
            known = self._read[run.id, field] = (now, self._look(run, file, name))
        if known[1] is not _ABSENT and known[1] is not None:
            self.found.add(field)
        return known[1]

    def _look(self, run: RunInfo, file: str, name: str) -> Any:
        directory = RunDir(self._root / run.id)
        if file != "manifest.json":
            value = newest_value(directory.train_log, name)
            if value is None:
                self.others.update(newest_names(directory.train_log))
            return value
        config = _config(directory)
        if name not in config:
            self.others.update(config)
            return _ABSENT
        entry = config[name]
        return entry.get("value") if isinstance(entry, dict) else _ABSENT


class RunFilter:
    """A checked filter. UsageError, naming the place, for one that makes no sense."""

    def __init__(self, text: str) -> None:
        self.tree: Tree = parse(text)
        check(self.tree)

    def by_list(self, run: RunInfo, now: float) -> bool | None:
        """What the list of runs says about it; None: the run's files have to tell."""
        return holds(self.tree, lambda leaf: listed(leaf, run, now))

    def matches(self, run: RunInfo, files: RunFiles, now: float) -> bool:
        def leaf(one: Word | Condition) -> bool:
            answer = listed(one, run, now)
            if answer is None:
                assert isinstance(one, Condition)
                answer = files.answer(run, one)
            return answer

        found = self.by_list(run, now)
        return bool(holds(self.tree, leaf)) if found is None else found

    def select(self, runs: Iterable[RunInfo], files: RunFiles) -> Iterator[RunInfo]:
        """The runs that pass, in their order, read one after the other as they are asked for."""
        now = time.time()
        return (run for run in runs if self.matches(run, files, now))

    def remark(self, files: RunFiles) -> str | None:
        """A config key or metric that none of the runs has: most likely a slip of the pen."""
        for test in conditions(self.tree):
            if test.name.lower() in FIELDS or test.name in files.found or not files.others:
                continue
            key = config_key(test)
            close = nearest(key or canonical(test.name), files.others)
            hint = f"; did you mean '{close}'?" if close else ""
            what = f"the config key '{key}'" if key else f"a value of '{test.name}'"
            return f"no run that was looked at has {what}{hint}"
        return None


def _config(run: RunDir) -> dict[str, Any]:
    try:
        config = orjson.loads(files.read_regular(run.manifest, jsonl.LARGEST_FILE)).get("config")
    except (OSError, orjson.JSONDecodeError, AttributeError):
        config = run.read_manifest().get("config")
    return config if isinstance(config, dict) else {}
