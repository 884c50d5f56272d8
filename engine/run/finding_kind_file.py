"""Kinds of findings as data: the YAML file beside the module of a rule holds their texts and fixes.

An entry has the fields of ``FindingKind``; its key is its ID, or a name where several entries share
an ``id``. A list in place of a text is joined with spaces. The key ``shared`` holds what entries
have in common, the key ``fixes`` lists of fixes that the rule chooses from. The ``advice`` of an
entry is for rules on consoles.

A fix is a title, a list of fixes, or a mapping. ``fix`` names a function of
``engine.run.fixes``, or one that the module gives to ``FindingKinds``; its arguments stand
beside it. Otherwise there are ``title`` and ``effect``, and one of ``config`` (set a key),
``scale`` (multiply its value), ``command`` and ``key`` (the key that the advice is about). In place
of a key, the name of a setting (``trainer_settings.json``) stands for the one of the run's kind.
``{onset}`` in a title is the step at which the problem began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from engine.run import fixes
from engine.run.finding import Change, Fix, Severity
from engine.run.finding_kind import HOLE, Case, FindingKind

_NO_KINDS = ("shared", "fixes")


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """A fix that no function builds."""

    title: str
    effect: str = ""
    config: dict[str, object] = {}
    scale: dict[str, float] = {}
    command: dict[str, str] = {}
    key: str = ""


class FindingKinds(Mapping[str, FindingKind]):
    """The kinds of findings of a module, by the keys of its file, which is read at first use."""

    kind_type: type[FindingKind] = FindingKind

    def __init__(self, module_file: str, **builders: Callable[..., Fix | Iterable[Fix]]) -> None:
        self._path = Path(module_file).with_suffix(".yaml")
        self._builders = {**vars(fixes), **builders}

    def __getitem__(self, key: str) -> FindingKind:
        return self._finding_kinds[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._finding_kinds)

    def __len__(self) -> int:
        return len(self._finding_kinds)

    def fixes(self, name: str, case: Case) -> tuple[Fix, ...]:
        """Return the fixes under that name, else those under ``other``."""
        named = self._tree["fixes"]
        return tuple(self._build(named[name if name in named else "other"], case))

    @cached_property
    def _tree(self) -> dict[str, Any]:
        from engine.base.yaml_files import read_table  # A healthy run needs no texts.

        tree: dict[str, Any] = read_table(self._path)
        return tree

    @cached_property
    def _finding_kinds(self) -> dict[str, FindingKind]:
        entries = self._tree.items()
        return {
            key: self._finding_kind(key, entry) for key, entry in entries if key not in _NO_KINDS
        }

    def _finding_kind(self, key: str, entry: Mapping[str, Any]) -> FindingKind:
        fields: dict[str, Any] = {
            name: " ".join(value) if isinstance(value, list) else value
            for name, value in entry.items()
            if name not in ("fixes", "advice")
        }
        fields["severity"] = Severity(entry.get("severity", "error"))
        fields["also"] = tuple(map(Severity, entry.get("also", ())))
        fields["not_checked"] = tuple(entry.get("not_checked", ()))
        entries = entry.get("fixes", ())
        return self.kind_type(
            **{"id": key, **fields}, fixes=lambda case: tuple(self._build(entries, case))
        )

    def _build(self, entries: Iterable[Any], case: Case) -> Iterator[Fix]:
        for entry in entries:
            if isinstance(entry, list):
                yield from self._build(entry, case)
            elif isinstance(entry, dict) and "fix" in entry:
                arguments = {name: value for name, value in entry.items() if name != "fix"}
                built = self._builders[entry["fix"]](case, **arguments)
                yield from (built,) if isinstance(built, Fix) else built
            else:
                yield _change(
                    _Entry(entry) if isinstance(entry, str) else convert(entry, _Entry), case
                )


def _change(entry: _Entry, case: Case) -> Fix:
    title = entry.title.replace("{onset}", HOLE if case.onset is None else str(case.onset))
    for name, after in entry.config.items():
        return fixes.setting(case.context, fixes.key_in(case, name), after, title, entry.effect)
    for name, factor in entry.scale.items():
        return fixes.scaled(case.context, fixes.key_in(case, name), factor, title, entry.effect)
    changes = tuple(Change("command", *change) for change in entry.command.items())
    return Fix(title, changes, entry.effect, fixes.key_in(case, entry.key))
