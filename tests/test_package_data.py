"""A wheel holds every file that the code reads beside itself."""

from __future__ import annotations

import tomllib

import pytest

from tests.paths import ROOT

DATA = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
NOT_READ = {".py", ".pyc", ".md"}


@pytest.mark.parametrize("package", DATA)
def test_files_that_are_no_modules_are_declared(package: str) -> None:
    folder = ROOT / package
    declared = {path for pattern in DATA[package] for path in folder.glob(pattern)}
    found = {path for path in folder.rglob("*.*") if path.suffix not in NOT_READ}
    assert {str(path) for path in found - declared} == set()


@pytest.mark.parametrize("package", DATA)
def test_every_declaration_names_a_file(package: str) -> None:
    assert [pattern for pattern in DATA[package] if not any((ROOT / package).glob(pattern))] == []
