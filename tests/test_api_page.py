"""docs/api.md describes what notebooks import, as the docstrings do."""

from __future__ import annotations

import pytest

import engine
from docs.api import CLASSES, FUNCTIONS, PAGE, members, page


def test_the_page_says_what_the_docstrings_say() -> None:
    assert PAGE.read_text() == page(), "renew it: make generated"


def test_the_page_has_all_public_names() -> None:
    assert {*FUNCTIONS, *CLASSES} >= {getattr(engine, name) for name in engine.__all__}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_member_is_described(kind: type) -> None:
    """By its own docstring, or by name in that of the class."""
    text = kind.__doc__ or ""
    silent = [each.name for each in members(kind) if not each.text]
    assert [name for name in silent if f"``{name}``" not in text] == []
