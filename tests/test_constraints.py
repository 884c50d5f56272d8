"""The two constraints files and the ranges of pyproject.toml agree with each other."""

from __future__ import annotations

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from engine.checks.environment import GPU_SET, vllm_support
from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read_pins(device: str) -> dict[str, str]:
    """Version by canonical name."""
    lines = (ROOT / f"constraints-{device}.txt").read_text().splitlines()
    pins = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


def declared(*extras: str) -> list[Requirement]:
    """The requirements of the base install and of ``extras``, without the project itself."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    requirements = [Requirement(line) for line in lines]
    return [requirement for requirement in requirements if requirement.name != "grubrics-tui"]


@pytest.mark.parametrize(
    ("device", "extras"), [("cpu", ("train", "dev")), ("gpu", ("train", "gpu"))]
)
def test_every_requirement_is_pinned_within_its_range(device: str, extras: tuple[str, ...]) -> None:
    pins = read_pins(device)

    for requirement in declared(*extras):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in constraints-{device}.txt"
        assert requirement.specifier.contains(version), f"{requirement} against {version}"


def test_the_gpu_extra_lets_in_only_a_vllm_that_fits() -> None:
    (vllm,) = [requirement for requirement in declared("gpu") if requirement.name == "vllm"]
    releases = [f"0.{minor}.{patch}" for minor in range(10, 50) for patch in range(3)]

    allowed = [release for release in releases if vllm.specifier.contains(release)]

    assert allowed
    for release in allowed:
        assert vllm_support(release) == "fits", release


def test_the_line_that_the_preflight_prints_is_the_gpu_set() -> None:
    pins = read_pins("gpu")

    assert [f"{name}=={pins[name]}" for name in ("vllm", "torch", "transformers")] == list(GPU_SET)
