"""The version gate names what does not fit, and the line that mends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from engine.checks.check import Check, tables
from engine.checks.environment import check_versions, find_installed
from engine.config.keys import verl_version

VERL = ["transformers!=5.6.0,<5.11,>=5.5.3", "tensordict!=0.9.0,<=0.10.0,>=0.8.0", "numpy>=2.0.0"]
VLLM_TORCH = {
    "0.24.0": "2.11.0",
    "0.26.0": "2.11.0",
    "0.28.0": "2.13.0",
    "0.29.0": "2.13.0",
    "0.31.0": "2.13.0",
    "0.33.0": "2.14.0",
}
"""What these releases of vLLM declare."""


def install(site: Path, name: str, version: str, requires: list[str] | None = None) -> None:
    """The metadata that pip leaves behind, in a folder of its own."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = [f"Requires-Dist: {line}" for line in requires or []]
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (folder / "METADATA").write_text("\n".join([*head, *lines]) + "\n")


def make_stack(site: Path, *, vllm: str | None, torch: str, transformers: str = "5.10.4") -> None:
    install(site, "verl", verl_version(), VERL)
    install(site, "torch", torch)
    install(site, "transformers", transformers)
    install(site, "tensordict", "0.10.0", ["torch"])
    install(site, "numpy", "2.3.5")
    if vllm is not None:
        needs = ">=5.16.1" if vllm == "0.33.0" else ">=5.5.3"
        declared = [f"torch=={VLLM_TORCH.get(vllm, torch)}", f"transformers{needs}"]
        install(site, "vllm", vllm, declared)


def find_problems(site: Path, *, vllm: bool = True, adapters: bool = True) -> list[Check]:
    return list(check_versions(find_installed([str(site)]), vllm=vllm, adapter_sync=adapters))


@pytest.mark.parametrize(
    ("vllm", "torch"),
    [("0.24.0", "2.11.0"), ("0.24.0", "2.11.0+cu130"), ("0.26.0", "2.11.0"), ("0.28.0", "2.13.0")],
)
def test_a_set_that_fits_passes(tmp_path: Path, vllm: str, torch: str) -> None:
    make_stack(tmp_path, vllm=vllm, torch=torch)

    assert find_problems(tmp_path) == []


@pytest.mark.parametrize("vllm", ["0.29.0", "0.31.0"])
def test_a_vllm_that_takes_no_adapter_fails_with_the_line_to_type(
    tmp_path: Path, vllm: str
) -> None:
    make_stack(tmp_path, vllm=vllm, torch="2.13.0")

    (problem,) = find_problems(tmp_path)

    assert problem.status == "fail"
    assert f"vllm {vllm}" in problem.message
    assert problem.fix == 'pip install "vllm==0.28.0"'


@pytest.mark.parametrize(
    ("peft", "fsdp1", "works"),
    [
        ("0.20.0", True, True),
        ("0.21.2", True, False),
        ("0.21.2", False, True),
    ],
)
def test_a_peft_that_finds_no_adapters_in_fsdp_1_is_refused(
    tmp_path: Path, peft: str, fsdp1: bool, works: bool
) -> None:
    make_stack(tmp_path, vllm=None, torch="2.13.0")
    install(tmp_path, "peft", peft)

    problems = list(
        check_versions(find_installed([str(tmp_path)]), vllm=False, adapter_sync=True, fsdp1=fsdp1)
    )

    fixes = [] if works else ['pip install "peft<0.21"']
    assert [problem.fix for problem in problems] == fixes


def test_without_adapters_the_same_vllm_is_only_untried(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm="0.31.0", torch="2.13.0")

    (problem,) = find_problems(tmp_path, adapters=False)

    assert problem.status == "warn"


def test_a_vllm_built_for_another_torch_fails(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm="0.24.0", torch="2.13.0")

    (problem,) = find_problems(tmp_path)

    assert problem.status == "fail"
    assert "torch 2.13.0 is installed; vllm 0.24.0 needs torch==2.11.0" in problem.message
    assert problem.fix == 'pip install "vllm==0.28.0"'


def test_where_no_vllm_exists_for_the_torch_the_whole_set_is_named(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm="0.33.0", torch="2.14.0")

    fixes = {problem.fix for problem in find_problems(tmp_path)}

    assert fixes == {'pip install "vllm==0.24.0" "torch==2.11.0" "transformers==5.10.4"'}


def test_an_old_vllm_fails(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm="0.11.2", torch="2.11.0")

    assert [problem.status for problem in find_problems(tmp_path)] == ["fail"]


def test_a_vllm_between_the_ranges_is_untried(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm="0.20.0", torch="2.11.0")

    assert [problem.status for problem in find_problems(tmp_path)] == ["warn"]


def test_a_config_without_vllm_does_not_care_which_is_installed(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm="0.33.0", torch="2.13.0")

    assert find_problems(tmp_path, vllm=False) == []


def test_transformers_older_than_verl_needs_fails(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm=None, torch="2.13.0", transformers="4.57.1")

    (problem,) = find_problems(tmp_path)

    assert problem.status == "fail"
    assert problem.fix == 'pip install "transformers!=5.6.0,<5.11,>=5.5.3"'


def test_transformers_newer_than_verl_declares_is_a_warning(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm=None, torch="2.13.0", transformers="5.12.0")

    (problem,) = find_problems(tmp_path)

    assert problem.status == "warn"


def test_a_release_that_verl_excludes_by_name_fails(tmp_path: Path) -> None:
    make_stack(tmp_path, vllm=None, torch="2.13.0", transformers="5.6.0")

    assert [problem.status for problem in find_problems(tmp_path)] == ["fail"]


def test_broken_metadata_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path, "peft", "0.21.2", ["torch >= banana", "torch>=1.13"])
    install(tmp_path, "torch", "2.13.0")

    assert find_problems(tmp_path) == []


def test_every_release_of_vllm_has_exactly_one_row() -> None:
    for version in ("0.9.0", "0.17.9", "0.18.0", "0.23.9", "0.24.0", "0.28.1", "0.29.0", "1.0.0"):
        rows = [limits for limits in tables()["vllm"] if SpecifierSet(limits).contains(version)]
        assert len(rows) == 1, version


def test_what_is_installed_here_fits() -> None:
    assert list(check_versions(find_installed(), vllm=False, adapter_sync=True)) == []
