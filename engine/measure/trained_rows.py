"""The items of an evaluation that the runs behind a target were trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.parquet import pa
from engine.checks.holdout import asked_digest, asked_digests
from engine.measure.items import Item
from engine.measure.targets import Target
from engine.run.checkpoints.ownership import read_stamp
from engine.run.kinds import find_kind
from engine.run.run import Run


def trained_rows(target: Target, items: Sequence[Item]) -> dict[str, int]:
    """How many of the items ask what a run was trained on, by run: the run that made the target's
    weights, the one that made its starting model, and so on."""
    counts = {}
    for run, files in _training_files(Path(target.source)) if target.source else ():
        trained = set[bytes]()
        for file in files:
            with suppress(OSError, UsageError, pa.ArrowException):  # it may be gone
                trained |= asked_digests(file)
        counts[run] = sum(bool(asked_digest(item.asked) & trained) for item in items)
    return {run: count for run, count in counts.items() if count}


def _training_files(model: Path) -> Iterator[tuple[str, list[Path]]]:
    """The training files of each run that led to a model, the last one first."""
    seen: set[Path] = set()
    while model not in seen:
        seen.add(model)
        stamp = read_stamp(model) or read_stamp(model.parent)
        if stamp is None:
            return
        manifest = Run(Path(stamp.directory)).read_full_manifest()
        kind, values, cwd = find_kind(manifest.kind), manifest.values, manifest.working_folder
        if kind is None:
            return
        given = values.get(kind.train_files_key or "") or []
        names = given if isinstance(given, list) else [given]
        yield stamp.run, [cwd / Path(str(name)).expanduser() for name in names]
        source = jsonl.location(values.get(kind.model_key))
        if source is None:
            return
        model = cwd / Path(source).expanduser()
