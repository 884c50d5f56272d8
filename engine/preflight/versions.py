"""Do the installed versions of the training stack fit each other?

Two sources: what the packages declare of each other in their own metadata, and the table of vLLM
releases below for what no metadata says. docs/verl.md explains the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from engine.preflight.check import Check, fail, warn
from engine.recipe.keys import verl_version

ID = "environment"

STACK = (
    "verl",
    "vllm",
    "torch",
    "transformers",
    "ray",
    "tensordict",
    "transferqueue",
    "peft",
    "torchdata",
    "numpy",
    "flash-attn",
)
"""The distributions whose versions depend on each other, by canonical name."""

GPU_SET = ("vllm==0.24.0", "torch==2.11.0", "transformers==5.10.4")
"""The heart of constraints-gpu.txt: the vLLM that verl 0.9.1 was released with."""

Installed = Mapping[str, Distribution]
"""Distributions by canonical name."""


@dataclass(frozen=True)
class VllmRow:
    """A range of vLLM releases and what verl 0.9.1 makes of it."""

    releases: SpecifierSet
    verdict: Literal["fits", "untried", "no LoRA", "too old"]


VLLM_TABLE = (
    VllmRow(SpecifierSet("<0.18"), "too old"),
    VllmRow(SpecifierSet(">=0.18,<0.24"), "untried"),
    VllmRow(SpecifierSet(">=0.24,<0.29"), "fits"),
    VllmRow(SpecifierSet(">=0.29"), "no LoRA"),
)
# vLLM and torch are built for each other: the release that fits, by the torch that is there.
_VLLM_FOR_TORCH = {"2.11": "vllm==0.24.0", "2.13": "vllm==0.28.0"}


def find_installed(path: Sequence[str] | None = None) -> dict[str, Distribution]:
    """The installed distributions of the stack; ``path`` replaces ``sys.path``."""
    searched = list(sys.path if path is None else path)
    matches = {name: Distribution.discover(name=name, path=searched) for name in STACK}
    first = {name: next(iter(found), None) for name, found in matches.items()}
    return {name: found for name, found in first.items() if found is not None}


def check_versions(installed: Installed, *, vllm: bool, adapter_sync: bool) -> Iterator[Check]:
    """What does not fit.

    ``vllm``: the recipe generates with vLLM. ``adapter_sync``: it sends LoRA adapters to it.
    """
    used = {name: found for name, found in installed.items() if vllm or name != "vllm"}
    yield from _check_declared(used)
    if "vllm" in used:
        yield from _check_vllm(used, adapter_sync)


def _check_declared(installed: Installed) -> Iterator[Check]:
    """Requirements of the installed packages on each other, as pip would check them."""
    for name, distribution in installed.items():
        for requirement in _requirements(distribution):
            needed = installed.get(canonicalize_name(requirement.name))
            if needed is None or _contains(requirement.specifier, needed.version):
                continue
            yield _mismatch(name, distribution.version, requirement, needed.version, installed)


def _mismatch(
    name: str, version: str, requirement: Requirement, present: str, installed: Installed
) -> Check:
    message = f"{requirement.name} {present} is installed; {name} {version} needs {requirement}"
    # What vLLM asks for may be what verl refuses: the vLLM is exchanged, not its surroundings.
    wanted = f'pip install "{requirement.name}{requirement.specifier}"'
    fix = _vllm_line(installed) if name == "vllm" else wanted
    # A release newer than the declared range may work; an older or another build does not.
    too_new = all(
        clause.operator in ("<", "<=") or clause.contains(present, prereleases=True)
        for clause in requirement.specifier
    )
    return warn(ID, message, fix) if too_new else fail(ID, message, fix)


def _check_vllm(installed: Installed, adapter_sync: bool) -> Iterator[Check]:
    version, verl = installed["vllm"].version, f"verl {verl_version()}"
    row = next(row for row in VLLM_TABLE if _contains(row.releases, version))
    fix = _vllm_line(installed)
    if row.verdict == "too old":
        yield fail(ID, f"vllm {version} is too old for {verl}", fix)
    elif row.verdict == "no LoRA" and adapter_sync:
        yield fail(
            ID,
            f"{verl} cannot send a LoRA adapter to vllm {version}: the first weight sync ends with "
            "an AttributeError (get_unstacked_mapper)",
            fix,
        )
    elif row.verdict != "fits":
        yield warn(ID, f"vllm {version} is untried with {verl}; 0.24 to 0.28 fit", fix)


def _vllm_line(installed: Installed) -> str:
    """The vLLM for the torch that is installed, or the whole set where none exists for it."""
    torch = installed.get("torch")
    release = Version(torch.version).release[:2] if torch else ()
    fitting = _VLLM_FOR_TORCH.get(".".join(str(part) for part in release))
    pins = (fitting,) if fitting else GPU_SET
    return "pip install " + " ".join(f'"{pin}"' for pin in pins)


def _requirements(distribution: Distribution) -> Iterator[Requirement]:
    """The requirements that hold without extras; an unreadable line is skipped."""
    for line in distribution.requires or ():
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def _contains(releases: SpecifierSet, version: str) -> bool:
    return releases.contains(version, prereleases=True)
