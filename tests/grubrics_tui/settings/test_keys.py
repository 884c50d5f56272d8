"""The names of keys: what a person may write in the settings, what Textual calls it."""

from __future__ import annotations

import string

import pytest
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from grubrics_tui.settings import keys
from grubrics_tui.settings.actions import ACTIONS, key_conflicts, keymap


@pytest.mark.parametrize(
    ("written", "names"),
    [
        (",", ["comma"]),
        (".", ["full_stop"]),
        (",,.", ["comma", "full_stop"]),
        ("x,,", ["x", "comma"]),
        ("j, down", ["j", "down"]),
        ("S", ["S"]),
        ("Esc", ["escape"]),
        ("PageDown", ["pagedown"]),
        ("ctrl+S", ["ctrl+s"]),
        ("ctrl+,", ["ctrl+comma"]),
        ("+,-", ["plus", "minus"]),
        ("ctrl++", ["ctrl+plus"]),
        ("↓", ["down"]),
        ("full_stop", ["full_stop"]),
    ],
)
def test_keys_are_written_by_sign_or_by_name(written: str, names: list[str]) -> None:
    assert keys.split(written) == names
    assert not any(map(keys.fault, names))


@pytest.mark.parametrize("sign", string.punctuation)
def test_every_sign_can_be_a_key_and_is_shown_as_itself(sign: str) -> None:
    (name,) = keys.split(sign)
    assert keys.fault(name) is None
    assert keys.format_keys(name) == sign
    assert keymap({"stop": sign}) == {"stop": name}


def test_textual_shortens_no_other_names() -> None:
    assert keys._SHORTER == KEY_NAME_REPLACEMENTS


def test_textual_knows_every_named_key() -> None:
    known = {key.value for key in Keys}
    assert set(keys._NAMED) - {"space"} <= known


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("escpe", "did you mean escape?"),
        ("crtl+s", "did you mean ctrl+s?"),
        ("ctrl+pagedwon", "did you mean ctrl+pagedown?"),
        ("coma", "did you mean comma?"),
        ("shift+s", "did you mean S?"),
        ("hyper-galactic", "keys are a letter, a digit"),
    ],
)
def test_a_wrong_name_is_one_line_with_the_nearest_right_one(written: str, hint: str) -> None:
    ((_, problem),) = key_conflicts({"stop": written})
    assert problem.startswith(f"stop: '{written}' is not a valid key; ")
    assert hint in problem and "\n" not in problem


def test_an_action_without_a_key_is_said() -> None:
    assert list(key_conflicts({"stop": " "})) == [("stop", "stop: no key given")]


def test_the_keys_of_the_registry_are_keys() -> None:
    assert [key for action in ACTIONS for key in keys.split(action.key) if keys.fault(key)] == []


def test_the_registry_s_own_keys_stay_as_they_are() -> None:
    assert all(",".join(keys.split(action.key)) == action.key for action in ACTIONS)
