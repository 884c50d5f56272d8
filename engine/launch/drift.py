"""How software, code and data differ from those of the run that is repeated or continued."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from engine.config.load import Config
from engine.config.places import data_files
from engine.run.host.surroundings import changes, surroundings
from engine.run.manifest import Difference
from engine.run.run import Run

_PACKAGES = "environment.packages."
_SOFTWARE = (_PACKAGES, "environment.python", "git.commit", "git.dirty")
_FILES = ("data", "code", "reward_inputs", "tools", "model")
_HASHES = (".sha256", ".sampled_sha256")


def find_drift(run: Run, config: Config) -> list[Difference]:
    """The differences between the launch of ``run`` and a launch of ``config`` now.

    Data files that ``config`` does not use are left out.
    """
    manifest, used = run.read_manifest(), {str(path) for path in data_files(config)}
    data = {path: facts for path, facts in manifest.data.items() if path in used}
    before = replace(manifest, data=data)
    paths = {part: [Path(name) for name in before.files(part)] for part in _FILES}
    return select_drift(changes(before, surroundings(Path.cwd(), None, **paths)))


def select_drift(differences: Iterable[Difference]) -> list[Difference]:
    """The differences that can change what is learned: software, and contents of files."""
    return [
        change
        for change in differences
        if (what := change.what).startswith(_SOFTWARE)
        or (what.partition(".")[0] in _FILES and what.endswith(_HASHES))
    ]


def describe_drift(since: str, drift: Iterable[Difference]) -> str | None:
    """One line about the differences from ``since``, such as a run; None if there are none."""
    parts = list(_phrases(list(drift)))
    return f"differs from {since}: {'; '.join(parts)}" if parts else None


def software_drift(drift: Iterable[Difference]) -> list[Difference]:
    """The differences that are not those of files."""
    return [change for change in drift if change.what.startswith(_SOFTWARE)]


def _phrases(drift: list[Difference]) -> Iterator[str]:
    for change in drift:
        what, before, after = change.what, change.before, change.after
        if what.startswith(_PACKAGES):
            yield f"{what.removeprefix(_PACKAGES)} {before or 'none'} -> {after or 'none'}"
        elif what == "environment.python":
            yield f"Python {before} -> {after}"
        elif what == "git.commit":
            yield f"commit {_short(before)} -> {_short(after)}"
        elif what == "git.dirty":
            yield "uncommitted changes" if after else "no uncommitted changes any more"
        else:
            path = what.partition(".")[2].rpartition(".")[0]
            yield f"{path} {'changed' if after else 'is gone'}"


def _short(commit: object) -> str:
    return str(commit)[:9] if commit else "none"
