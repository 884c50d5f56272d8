"""The text a pattern cannot match without is found by reading the pattern, not by trying it."""

from __future__ import annotations

import pytest

from engine.doctor.text.rules import NoLiteralError, alternatives, load_rules, required_literals


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
    assert required_literals(pattern) == texts


def test_an_exceptions_name_and_message_are_looked_for_apart_because_of_colors() -> None:
    assert required_literals("UnpicklingError: bad") == ("unpicklingerror",)


@pytest.mark.parametrize("pattern", [r"\d+ \w+", "a|b", "(?:optional)?", "(unclosed", "loss"])
def test_a_pattern_without_a_rare_text_is_refused(pattern: str) -> None:
    with pytest.raises(NoLiteralError):
        required_literals(pattern)


def test_alternatives_inside_a_group_are_not_at_the_top() -> None:
    assert alternatives(r"a(?:b|c)|[|]d|\|e") == ["a(?:b|c)", "[|]d", r"\|e"]


def test_every_example_of_a_rule_contains_one_of_its_texts() -> None:
    for rule in load_rules():
        texts = [text for of_pattern in rule.literals for text in of_pattern]
        for example in rule.examples:
            assert any(text in example.lower() for text in texts), (rule.id, example)
