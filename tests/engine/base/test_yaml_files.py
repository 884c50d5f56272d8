"""A few lines of YAML cannot mean more than memory holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.base.yaml_files import MOST_VALUES, parse_yaml, read_yaml, require_bounded
from engine.config.load import load_config

pytestmark = pytest.mark.long

NINE = ", ".join(["*{0}"] * 9)
BOMB = "a: &a [1, 1]\n" + "".join(
    f"{name}: &{name} [{NINE.format(before)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_aliases_that_multiply_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(f"grubrics: {{kind: grpo}}\n{BOMB}")
    with pytest.raises(UsageError, match=rf"{path}: its YAML aliases expand to more than"):
        load_config(str(path), env={})


def test_an_override_is_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("grubrics: {kind: grpo}\n")
    bomb = "{" + ", ".join(BOMB.splitlines()) + "}"
    with pytest.raises(UsageError, match=r"override 'data\.x': its YAML aliases"):
        load_config(str(path), [f"data.x={bomb}"], env={})


def test_a_value_that_holds_itself_is_refused() -> None:
    with pytest.raises(UsageError, match="aliases"):
        require_bounded("config", "a: &a [*a]")


def test_ordinary_aliases_may_be_used() -> None:
    require_bounded("config", "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}")


@pytest.mark.long
def test_long_lists_without_aliases_count_as_they_are() -> None:
    require_bounded("config", f"a: [{'1, ' * (MOST_VALUES // 2)}]")


def test_what_is_no_yaml_is_left_to_its_reader() -> None:
    require_bounded("config", "a: [")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a: 1\nb: [\n", "line 3: invalid YAML"),
        (b"a: 1\nb: {c: 1, c: 2}", "line 2: invalid YAML: found duplicate key c"),
        (b"a: " + b"[" * 5000, "nested too deeply"),
        (b"a: \xff", "not UTF-8: invalid start byte at byte 3"),
        (b"a: 2026-13-45", "invalid YAML: month must be in 1..12"),
        (b"a: " + b"x" * (1 << 20), "larger than the 1024 KiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    with pytest.raises(UsageError) as raised:
        read_yaml(path)
    error = str(raised.value)
    assert error.startswith(str(path)) and says in error and "\n" not in error


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.yaml: No such file"):
        read_yaml(tmp_path / "a.yaml")


def test_a_key_that_a_merge_overrides_is_no_duplicate() -> None:
    assert parse_yaml("x", "a: &a {x: 1}\nb: {<<: *a, x: 2}")["b"] == {"x": 2}
