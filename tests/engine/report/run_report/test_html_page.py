"""The page is complete in itself, and whatever a run holds is text in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from engine.run.run import Run
from tests.engine.report.run_report.reported_runs import (
    log_steps,
    make_evaluation,
    make_run,
    page_of,
    usual_metrics,
)
from tests.hostile_text import ALL, HOSTILE, LONE_SURROGATE, LONG_RESPONSE, harmful

pytestmark = pytest.mark.long

LOADING = ("src", "srcset", "action", "data", "poster", "background", "ping")
INJECTIONS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "</title></textarea><svg onload=alert(1)>",
    "[x](javascript:alert(1)) <a href='javascript:alert(1)'>x</a>",
    "<iframe src='https://leak.example'></iframe><base href='https://leak.example'>",
    "\"><link rel=stylesheet href='https://leak.example/x.css'>",
    "{{ 7 * 7 }} {% raw %} ${7*7}",
    "]]><!-- --> &lt;script&gt; &#60;script&#62;",
)


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_run(root: Path) -> Run:
    """A run whose names, values, logs and rollouts try to be markup."""
    text = " ".join((*INJECTIONS, ALL))
    run = make_run(
        root,
        "a",
        steps=1,
        description=text,
        argv=["python", text.replace("\0", "")],
        config={f"x.{text}": {"value": text, "origin": text}},
        changes=[{"key": text, "before": text, "after": text, "origin": text}],
        git={"commit": text, "dirty": True},
        environment={"python": text, "packages": {text: text}},
        data={"data/<script>.parquet": {"sha256": text}},
        recipe=text,
    )
    log_steps(run, [{**usual_metrics(1, 1, 1e-6), f"reward/{text}": 1.0}])
    run.attempt(1).console.write_text(f"RuntimeError: {text}\n", errors="replace")
    rows = [
        {"uid": "g_0_0", "score": 1.0, "input": text, "output": text, "gts": LONE_SURROGATE},
        {"uid": "g_1_0", "score": 0.5, "input": text, "output": LONG_RESPONSE + INJECTIONS[0]},
    ]
    dump = run.attempt(1).path / "rollouts" / "1.jsonl"
    dump.write_text("".join(json.dumps({"step": 1, **row}) + "\n" for row in rows))
    return run


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    make_evaluation(tmp_path, {"base": [0.0, 1.0], "a:20": [1.0, 1.0]})
    page = page_of(make_run(tmp_path, "a"), make_run(tmp_path, "b", lr=3e-6))
    assert not re.search(r"https?://|@import|url\(|src=|<script|javascript:", page)
    for tag, attributes in Tags(page).tags:
        assert not [name for name in attributes if name in LOADING or name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#"), tag


def test_its_policy_allows_its_own_style_and_nothing_else(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path, "a"))
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_hostile_text_is_only_text(tmp_path: Path) -> None:
    plain = {tag for tag, _ in Tags(page_of(make_run(tmp_path / "plain", "a"))).tags}
    page = page_of(hostile_run(tmp_path / "hostile"))
    found = Tags(page)
    known = plain | {"article", "h3", "dl", "dt", "dd", "code", "span", "div"}
    assert {tag for tag, _ in found.tags} <= known
    assert not [n for _, a in found.tags for n in a if n in LOADING or n.startswith("on")]
    for injection in INJECTIONS:
        assert injection in found.text


def test_it_is_utf8_without_anything_that_hides(tmp_path: Path) -> None:
    page = page_of(hostile_run(tmp_path))
    page.encode("utf-8")
    assert harmful(page, allowed="\n") == set()
    assert all(text in page for text in ("red", "owned")) and HOSTILE


def test_a_line_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    assert len(page_of(hostile_run(tmp_path))) < 500_000


def test_the_same_runs_make_the_same_bytes(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, name, lr=lr) for name, lr in (("a", 1e-6), ("b", 2e-6))]
    make_evaluation(tmp_path, {"base": [0.0, 1.0], "a:20": [1.0, 1.0]})
    assert page_of(*runs) == page_of(*runs)


def test_runs_stay_in_the_order_in_which_they_are_named(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, name, lr=lr) for name, lr in (("b", 1e-6), ("a", 2e-6))]
    assert "<title>b, a</title>" in page_of(*runs)


def test_a_date_is_there_only_where_it_was_given(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    assert "2026-01-31" in page_of(run, date="2026-01-31")
    assert "2026-01-31" not in page_of(run)
