"""Entry points of other packages, from real dist-info folders on the path."""

from __future__ import annotations

import sys

import pytest

from engine.base.plugins import load
from tests.plugins import InstallPlugin

GROUP = "grubrics.fruits"


def test_without_plugins_there_are_no_objects_and_no_problems() -> None:
    assert load(GROUP, str) == ((), ())


def test_an_object_is_loaded_with_its_name_and_package(install_plugin: InstallPlugin) -> None:
    install_plugin("orchard", "APPLE = 'apple'", f"[{GROUP}]\nred = orchard:APPLE\n")
    plugins = load(GROUP, str)
    assert plugins.objects == ("apple",)
    assert (plugins.loaded[0].name, plugins.loaded[0].source) == ("red", "orchard 1.2")
    assert plugins.problems == ()


def test_one_entry_point_may_hold_several_objects(install_plugin: InstallPlugin) -> None:
    install_plugin("basket", "ALL = ['apple', 'pear']", f"[{GROUP}]\nall = basket:ALL\n")
    assert load(GROUP, str).objects == ("apple", "pear")


def test_other_groups_are_not_loaded(install_plugin: InstallPlugin) -> None:
    install_plugin(
        "forest", "raise RuntimeError('imported')", "[grubrics.trees]\noak = forest:OAK\n"
    )
    assert load(GROUP, str) == ((), ())


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("import no_such_package_here", "no_such_package_here"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("PEAR = 'pear'", "AttributeError"),
        ("APPLE = 7", "expected str, got int"),
        ("APPLE = ['pear', 7]", "expected str, got int"),
    ],
)
def test_a_broken_plugin_is_named_in_one_line_and_the_others_load(
    install_plugin: InstallPlugin, code: str, why: str
) -> None:
    install_plugin("rotten", code, f"[{GROUP}]\nbad = rotten:APPLE\n")
    install_plugin("orchard2", "APPLE = 'apple'", f"[{GROUP}]\nred = orchard2:APPLE\n")
    plugins = load(GROUP, str)
    assert plugins.objects == ("apple",)
    (problem,) = plugins.problems
    assert "bad of rotten 1.2" in problem and why in problem and "\n" not in problem


def test_a_damaged_entry_point_file_is_named(install_plugin: InstallPlugin) -> None:
    install_plugin("damaged", "", f"[{GROUP}]\nthis line declares nothing\n")
    plugins = load(GROUP, str)
    assert plugins.objects == () and len(plugins.problems) == 1


def test_an_unreadable_entry_point_file_is_skipped(install_plugin: InstallPlugin) -> None:
    info = install_plugin("odd", "", "")
    (info / "entry_points.txt").write_bytes(b"\xff\xfe[grubrics.fruits]")
    assert load(GROUP, str) == ((), ())


def test_a_package_that_is_twice_on_the_path_counts_once(
    install_plugin: InstallPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = install_plugin("twice", "APPLE = 'apple'", f"[{GROUP}]\nred = twice:APPLE\n")
    copy = info.parent.parent / "copy" / info.name
    copy.mkdir(parents=True)
    for file in info.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(sys, "path", [*sys.path, str(copy.parent)])
    assert load(GROUP, str).objects == ("apple",)
