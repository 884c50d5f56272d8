"""Tags and notes on runs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.report.entry import draft_entry
from engine.run.columns import RunRow
from engine.run.index import Index
from engine.run.notes import (
    LONGEST_NOTE,
    MOST_TAGS,
    Notes,
    NotesChangedError,
    add_tags,
    edit_notes,
    read_notes,
    remove_tags,
    write_note,
)
from engine.run.registry import list_runs
from engine.run.run import Run, archive_root
from engine.run.state import RunState, write_state
from engine.supervise.housekeeping import archive, unarchive


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "runs" / "night")
    run.path.mkdir(parents=True)
    jsonl.write_json(run.manifest_file, {"v": 1, "recipe": "tiny", "kind": "grpo"})
    write_state(run, RunState("finished", started=1.0, ended=2.0, step=5))
    return run


def test_tags_are_added_once_and_in_order(run: Run) -> None:
    add_tags(run, ["b", "a"])
    assert add_tags(run, ["a", "c"]).tags == ("b", "a", "c")


def test_a_tag_is_removed_and_the_note_stays(run: Run) -> None:
    write_note(run, "why")
    add_tags(run, ["a", "b"])
    assert remove_tags(run, ["a"]) == Notes(("b",), "why")


def test_removing_a_tag_that_is_not_there_names_the_nearest(run: Run) -> None:
    add_tags(run, ["baseline"])
    with pytest.raises(UsageError, match="did you mean 'baseline'"):
        remove_tags(run, ["basline"])


@pytest.mark.parametrize("tag", ["", "two words", "-x", "[red]", "\x1b[2J", "x" * 41, "\u202eabc"])
def test_text_that_cannot_be_typed_or_shown_is_not_a_tag(run: Run, tag: str) -> None:
    with pytest.raises(UsageError, match="must be ASCII letters"):
        add_tags(run, [tag])
    assert not run.notes_file.exists()


def test_an_empty_note_removes_it(run: Run) -> None:
    write_note(run, "why")
    assert write_note(run, "") == (Notes(), "why")


def test_a_form_keeps_what_others_changed_meanwhile(run: Run) -> None:
    add_tags(run, ["a", "b"])
    opened = read_notes(run)
    add_tags(run, ["c"])
    write_note(run, "from the shell")
    assert edit_notes(run, opened, ["b", "d"], "") == Notes(("b", "c", "d"), "from the shell")


def test_a_note_that_two_hands_changed_is_not_overwritten(run: Run) -> None:
    opened = read_notes(run)
    write_note(run, "from the shell")
    with pytest.raises(NotesChangedError, match="from the shell") as refused:
        edit_notes(run, opened, [], "from the form")
    assert read_notes(run).text == "from the shell"
    assert edit_notes(run, refused.value.now, [], "both").text == "both"


def test_too_much_is_refused(run: Run) -> None:
    with pytest.raises(UsageError, match="characters at most"):
        write_note(run, "x" * (LONGEST_NOTE + 1))
    with pytest.raises(UsageError, match=f"at most {MOST_TAGS} are allowed"):
        add_tags(run, [f"t{number}" for number in range(MOST_TAGS + 1)])


def test_fields_of_a_later_version_stay(run: Run) -> None:
    jsonl.write_json(run.notes_file, {"v": 2, "tags": ["x"], "text": "keep", "stars": 5})
    add_tags(run, ["good"])
    write_note(run, "new")
    written = {"v": 2, "tags": ["x", "good"], "text": "new", "stars": 5}
    assert jsonl.read_json(run.notes_file) == written


@pytest.mark.parametrize(
    ("content", "damage"),
    [
        ('{"tags": ["x"], "te', "no JSON object"),
        ('["x"]', "no JSON object"),
        ('{"text": ["keep"]}', "'text' is no note"),
        (f'{{"text": "{"x" * (LONGEST_NOTE + 1)}"}}', "'text' is no note"),
        ('{"tags": ["x", "two words"]}', "'tags' is no list of tags"),
        ('{"tags": "x"}', "'tags' is no list of tags"),
        (" " * (jsonl.LARGEST_FILE + 1), "larger than the 16384 KiB"),
    ],
)
def test_a_file_that_a_change_would_lose_a_part_of_is_refused(
    run: Run, content: str, damage: str
) -> None:
    run.notes_file.write_text(content)
    with pytest.raises(UsageError, match=f"notes.json: {damage}.*Correct or delete the file"):
        add_tags(run, ["good"])
    assert run.notes_file.read_text() == content


def test_simultaneous_changes_are_all_stored(run: Run) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: add_tags(run, [f"t{number}"]), range(16)))
    assert set(read_notes(run).tags) == {f"t{number}" for number in range(16)}


def test_only_the_notes_are_written(run: Run) -> None:
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    add_tags(run, ["a"])
    after = {path.name: path.read_bytes() for path in run.path.iterdir()}
    assert after.pop("notes.json") and after.pop(".notes.lock") == b""
    assert after == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200))
def test_any_typed_note_can_be_displayed(run: Run, text: str) -> None:
    shown = write_note(run, text)[0].text
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert read_notes(run).text == shown


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_file_can_be_read(run: Run, value: object) -> None:
    for content in (value, {"tags": value, "text": value}):
        run.notes_file.write_text(json.dumps(content))
        notes = read_notes(run)
        assert all(char.isprintable() or char == "\n" for char in notes.text + "".join(notes.tags))


def test_the_list_shows_them_at_once_although_the_state_did_not_change(
    run: Run, tmp_path: Path
) -> None:
    root, index = run.path.parent, Index(run.path.parent, RunRow, tmp_path / "runs.sqlite")
    assert not list_runs(root, index)[0].notes
    write_note(run, "why")
    add_tags(run, ["a"])
    assert list_runs(root, index)[0].notes == Notes(("a",), "why")
    run.notes_file.unlink()
    assert not list_runs(root, index)[0].notes


def test_they_go_into_the_archive_and_back(run: Run) -> None:
    root = run.path.parent
    add_tags(run, ["a"])
    archive(run)
    archived = Run(archive_root(root) / run.id)
    assert read_notes(archived).tags == ("a",)
    assert list_runs(archive_root(root))[0].notes.tags == ("a",)
    assert read_notes(unarchive(archived)).tags == ("a",)


def test_the_experiment_log_starts_with_them(run: Run) -> None:
    write_note(run, "diverged after the restart")
    add_tags(run, ["a", "b"])
    assert draft_entry(run).observations == "diverged after the restart\ntags: a, b"
