"""The page as Chromium reads it from a file: no error, no request, no script."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.report.run_report.reported_runs import page_of
from tests.engine.report.run_report.test_html_page import Tags, hostile_run

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)

pytestmark = [
    pytest.mark.waits,
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium (apt install chromium)"),
]


@dataclass(frozen=True)
class Visit:
    """What became of a page: its DOM, what the console printed, and what was asked for."""

    dom: str
    console: tuple[str, ...]
    hosts: frozenset[str]


def visit(page: str, folder: Path) -> Visit:
    """Open a page from a file. No name of a host resolves."""
    file, log = folder / "page.html", folder / "net.json"
    file.write_text(page)
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom")
    done = subprocess.run(
        [
            CHROMIUM,
            *options,
            f"--user-data-dir={folder / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr",
            "--v=0",
            f"--log-net-log={log}",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    console = tuple(line for line in done.stderr.splitlines() if ":CONSOLE" in line)
    hosts = frozenset(re.findall(r'"url":"\w+://([^/"]+)', log.read_text()))
    return Visit(done.stdout, console, hosts)


def test_hostile_runs_run_nothing_and_load_nothing(tmp_path: Path) -> None:
    seen = visit(page_of(hostile_run(tmp_path)), tmp_path)
    assert "</html>" in seen.dom
    tags = Tags(seen.dom).tags
    assert not {"script", "iframe", "base", "link", "img"} & {tag for tag, _ in tags}
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert seen.console == ()
    assert not [host for host in seen.hosts if host.endswith("leak.example")]


def test_a_page_that_loads_something_is_noticed(tmp_path: Path) -> None:
    leaking = "<img src='http://leak.example/x.png'><script>console.log('ran')</script>"
    seen = visit(f"<!doctype html>{leaking}", tmp_path)
    assert "leak.example" in seen.hosts and any("ran" in line for line in seen.console)


def test_the_policy_stops_what_would_get_into_the_page(tmp_path: Path) -> None:
    leaking = "<img src='http://leak.example/x.png'><script>console.log('ran')</script>"
    page = page_of(hostile_run(tmp_path)).replace("<main>", f"<main>{leaking}")
    seen = visit(page, tmp_path)
    assert "leak.example" not in seen.hosts
    assert len([line for line in seen.console if "Content Security Policy" in line]) == 2
