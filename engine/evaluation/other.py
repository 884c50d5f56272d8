"""The targets of another evaluation as baselines: ``EVALUATION:TARGET``.

Their rows are read where they are. They can be compared only if items, sampling and scoring are the
same, so anything that differs is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError, unknown_name
from engine.evaluation.folder import TargetDir, read_target
from engine.evaluation.items import Item, digest
from engine.evaluation.setup import Setup
from engine.evaluation.targets import Target

_SETUP = "setup.json"


def find_other(text: str) -> Target | None:
    """The target that ``EVALUATION:TARGET`` names; ``EVALUATION`` is enough if it has only one.

    None if ``text`` does not begin with the folder of an evaluation. UsageError for a target that
    it does not have.
    """
    ends = [index for index, char in enumerate(text) if char == ":"] + [len(text)]
    end = next((end for end in ends if (_folder(text[:end]) / _SETUP).is_file()), None)
    if end is None:
        return None
    folder, name = _folder(text[:end]), text[end + 1 :]
    files = sorted(folder.glob("*/target.json"))
    targets = [(target, file.parent) for file in files if (target := read_target(file)) is not None]
    known = {target.name: path for target, path in targets}
    if not name and len(known) == 1:
        [name] = known
    if not name:
        raise UsageError(f"{folder}: name one of its targets: {', '.join(known)}")
    if name not in known:
        raise unknown_name(f"{folder}: target", name, known)
    path = known[name].resolve()
    return Target(text, "evaluation", str(path), digest(["evaluation", str(path)]))


def require_same_setup(target: Target, setup: Setup, items: Sequence[Item]) -> None:
    """UsageError that names the first item, or the setting, that differs from ``setup``."""
    folder = Path(target.source)
    theirs = {row.uid: row.item_sha256 for row in TargetDir(folder).read_answers().values()}
    for item in items:
        if item.uid not in theirs:
            raise UsageError(f"{target.name}: has no answer to item '{item.uid}'")
        if theirs[item.uid] != item.sha256:
            raise UsageError(f"{target.name}: item '{item.uid}' differs from that of {setup.data}")
    ours = {item.uid for item in items}
    if more := next((uid for uid in theirs if uid not in ours), None):
        here = f"which is not among the {len(items)} here"
        raise UsageError(f"{target.name}: has an answer to item '{more}', {here}")
    known = jsonl.read_json(folder.parent / _SETUP) or {}
    for section in ("sampling", "scoring"):
        wanted = jsonl.finite(asdict(setup)[section])
        _require_equal(target, section, known.get(section), wanted)


def _require_equal(target: Target, name: str, theirs: Any, ours: Any) -> None:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            _require_equal(target, f"{name}.{key}", theirs.get(key), ours.get(key))
    elif theirs != ours:
        raise UsageError(f"{target.name}: {name} was {theirs!r} and is {ours!r} here")


def _folder(text: str) -> Path:
    return Path(text).expanduser()
