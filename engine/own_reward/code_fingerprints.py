"""Fingerprints of the reward function and the data that a run was launched with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.host.environment import fingerprint
from engine.runs.rundir import RunDir

OF_CODE, OF_INPUTS, OF_TOOLS, OF_DATA = "reward function", "reward input", "tools", "data file"
"""Names of files among the values of a configuration."""

Files = Mapping[str, Mapping[str, Any]]
"""Fingerprints by path; the function's own file is the first."""


def code_values(manifest: Mapping[str, Any]) -> dict[str, str]:
    """``{"reward function rw.py": sha256}`` by path in the function's folder, and the files that it
    reads by path: the parts of a configuration that are not keys."""
    code: Files = manifest.get("code") or {}
    inputs: Files = manifest.get("reward_inputs") or {}
    names = _names(code)
    return {
        **{f"{OF_CODE} {names[path]}": facts["sha256"] for path, facts in code.items()},
        **{f"{OF_INPUTS} {path}": facts["sha256"] for path, facts in inputs.items()},
    }


def tool_values(manifest: Mapping[str, Any]) -> dict[str, str]:
    """``{"tools tools.py": sha256}``: with other tools a run has other conversations, whose rewards
    are on the same scale."""
    tools: Files = manifest.get("tools") or {}
    return {f"{OF_TOOLS} {path}": facts["sha256"] for path, facts in tools.items()}


def data_values(manifest: Mapping[str, Any]) -> dict[str, str]:
    """``{"data file data/train.parquet": sha256}``: runs of one configuration on different data do
    not repeat each other."""
    data: Files = manifest.get("data") or {}
    return {f"{OF_DATA} {path}": facts["sha256"] for path, facts in data.items()}


def executed_code(run: RunDir, files: Files, cwd: Path) -> dict[str, Any]:
    """Fingerprints of what a new attempt would execute: the run's copies, if there are any."""
    executed = {}
    for path, name in _names(files).items():
        copy = run.code / name
        source = copy if copy.is_file() else cwd / path
        if source.is_file():
            executed[path] = fingerprint(source)
    return executed


def edited_code(files: Files, cwd: Path) -> Iterator[str]:
    """The files that were removed or edited since the launch."""
    for path, facts in files.items():
        now = fingerprint(cwd / path)["sha256"] if (cwd / path).is_file() else None
        if now != facts["sha256"]:
            yield path


def _names(files: Files) -> dict[str, Path]:
    """Each file relative to the folder of the first, as its copy is called."""
    folder = Path(next(iter(files), "")).parent
    inside = (path for path in files if Path(path).is_relative_to(folder))
    return {path: Path(path).relative_to(folder) for path in inside}
