"""The texts that the lines of a rule must contain."""

from __future__ import annotations

import pytest

from engine.doctor.text.rules import NoLiteralError, load_rules, pattern_literals


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("No space left on device", ("no space left on device",)),
        (r"\[Errno 28\]", ("[errno 28]",)),
        (r"LoRA rank \d+ is greater than", (" is greater than",)),
        ("colou?red text", ("red text",)),
        ("first thing|second thing", ("first thing", "second thing")),
        (r"\w+: (?:gated|private) repository", (" repository",)),
        (r"(?:gated|private) \w+", ("gated", "private")),
        (r"(?:optional )?(?:gated|private) \w+", ("gated", "private")),
    ],
)
def test_texts_of_a_pattern(pattern: str, texts: tuple[str, ...]) -> None:
    assert pattern_literals(pattern) == texts


def test_an_exceptions_name_and_message_are_searched_for_apart_because_of_colors() -> None:
    assert pattern_literals("UnpicklingError: bad") == ("unpicklingerror",)


@pytest.mark.parametrize("pattern", [r"\d+ \w+", "a|b", "(?:optional)?", "(unclosed", "loss"])
def test_a_pattern_without_a_rare_text_is_refused(pattern: str) -> None:
    with pytest.raises(NoLiteralError):
        pattern_literals(pattern)


def test_every_example_of_a_rule_contains_one_of_its_texts() -> None:
    for rule in load_rules():
        texts = [text for of_pattern in rule.literals for text in of_pattern]
        for example in rule.examples:
            assert any(text in example.lower() for text in texts), (rule.id, example)
