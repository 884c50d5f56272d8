"""Records of a user's own function: by seed and index, in processes of their own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.data.contract import read_facts, read_rows
from engine.data.own_records import OwnRecords
from engine.data.prepare_task import Prepared, PrepareOptions, prepare_task
from engine.tasks.questions import QUESTIONS
from engine.tasks.task import RecordError
from tests.paths import ROOT

pytestmark = pytest.mark.waits

EXAMPLE = re.findall(
    r"`subtraction.py`\n\n```python\n(.*?)```", (ROOT / "docs" / "tasks.md").read_text(), re.DOTALL
)[0]


def write(folder: Path, code: str) -> Path:
    path = folder / "env.py"
    path.write_text(code)
    return path


def make(path: Path, count: int = 5, seed: int = 1, name: str = "make") -> list[Any]:
    """The records, or why there is none."""
    return [record for _, record in OwnRecords(path, name, count).make(seed)]


def prepare(
    path: Path, count: int, *, out: str = "out", **options: Any
) -> tuple[Prepared, set[str], set[str]]:
    """What was prepared, and the questions of the two files."""
    folder = path.parent / out
    source = Path(f"{path}:make:{count}")
    prepared = prepare_task(QUESTIONS, [source], [], PrepareOptions(folder, **options))
    train, val = (
        {str(row["extra_info"]["question"]) for row in read_rows(folder / f"{name}.parquet")}
        for name in ("train", "val")
    )
    return prepared, train, val


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/env.py:make", ("a/env.py", "make", 500)),
        ("a/env.py:make:20", ("a/env.py", "make", 20)),
        ("chain_sum:20", None),
        ("a/rows.jsonl", None),
    ],
)
def test_a_source_is_a_file_a_function_and_a_count(
    text: str,
    expected: tuple[str, str, int] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    write(tmp_path / "a", "")
    own = OwnRecords.parse(text)
    assert (own and (str(own.file), own.function, own.count)) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("env.py", "name the function that makes records: env.py:FUNCTION:COUNT"),
        ("env.py:make:0", "env.py:FUNCTION:COUNT"),
        ("env.py:make:many", "env.py:FUNCTION:COUNT"),
        ("env.py:", "env.py:FUNCTION:COUNT"),
        ("gone.py:make", "gone.py does not exist"),
    ],
)
def test_another_source_of_python_is_refused(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "")
    with pytest.raises(UsageError, match=says):
        OwnRecords.parse(text)


@pytest.mark.row("V19")
def test_seed_and_index_make_the_record(tmp_path: Path) -> None:
    path = write(tmp_path, EXAMPLE)
    assert make(path) == make(path)
    assert make(path, count=3) == make(path)[:3]
    assert make(path, seed=2) != make(path)


@pytest.mark.row("V19")
def test_a_greater_count_moves_no_prompt_to_the_other_file(tmp_path: Path) -> None:
    path = write(tmp_path, EXAMPLE)
    _, few_train, few_val = prepare(path, 60, seed=7)
    _, many_train, many_val = prepare(path, 200, seed=7)
    assert few_train < many_train
    assert few_val < many_val
    assert not many_train & many_val


def test_the_same_command_writes_the_same_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, EXAMPLE)
    prepare(path, 40, out="one")
    prepare(path, 40, out="two")
    for name in ("train.parquet", "val.parquet"):
        assert content_hash(tmp_path / "one" / name) == content_hash(tmp_path / "two" / name)


def test_the_files_record_the_code_and_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("4\n")
    (tmp_path / "helper.py").write_text("def double(a):\n    return 2 * a\n")
    path = write(
        tmp_path,
        "from pathlib import Path\nimport helper\n"
        "BASE = int(Path(__file__).with_name('words.txt').read_text())\n"
        "def make(seed, index):\n"
        "    return {'question': f'{index}?', 'answer': helper.double(BASE)}\n",
    )
    prepare(path, 20)
    facts = read_facts(tmp_path / "out" / "train.parquet")
    assert facts is not None
    for file in (path, tmp_path / "helper.py", tmp_path / "words.txt"):
        assert facts.sources[str(file)] == content_hash(file)
    assert facts.sources[f"{path}:make:20"] == ""


@pytest.mark.row("V19")
@pytest.mark.parametrize(
    "body",
    [
        "random.random()",
        "hash(f'{seed} {index}')",
        "len(calls) if calls.append(0) is None else 0",
    ],
)
def test_a_record_that_follows_from_more_than_seed_and_index_is_refused(
    body: str, tmp_path: Path
) -> None:
    code = f"import random\ncalls = []\ndef make(seed, index):\n    return {{'answer': {body}}}\n"
    with pytest.raises(UsageError, match=r"make\(seed=1, index=0\) makes another record"):
        make(write(tmp_path, code))


def test_a_process_that_ends_costs_one_record(tmp_path: Path) -> None:
    code = "import os\ndef make(seed, index):\n    return os._exit(3) if index == 1 else {'a': 1}\n"
    first, second, third = make(write(tmp_path, code), count=3)
    assert first == third == {"a": 1}
    assert isinstance(second, RecordError)
    assert "make ended its process with exit code 3 (env.py:2)" in str(second)


def test_a_record_that_takes_too_long_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.data.own_records._LIMIT_S", 0.5)
    path = write(tmp_path, "import time\ndef make(seed, index):\n    time.sleep(600)\n")
    with pytest.raises(UsageError, match=r"index 4: make gave no record within 0.5 s \(env.py:3\)"):
        make(path)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def mak(seed, index): ...", "env.py has no function 'make'; did you mean 'mak'?"),
        ("def make(index): ...", "cannot be called to make a record, with seed, index by name"),
        ("import gone", "env.py:1: ModuleNotFoundError: No module named 'gone'"),
    ],
)
def test_a_function_that_cannot_be_called_is_one_line_and_nothing_is_written(
    code: str, says: str, tmp_path: Path
) -> None:
    path = write(tmp_path, code)
    with pytest.raises(UsageError) as caught:
        prepare(path, 5)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["env.py"]


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("[1, 2]", "TypeError: returned list '[1, 2]', not a mapping (env.py:1)"),
        ("{'question': print}", "with a builtin_function_or_method, which JSON does not have"),
        ("1 / 0", "ZeroDivisionError: division by zero (env.py:1)"),
        ("{'question': 'x?', 'answer': ''}", "the answer is empty"),
    ],
)
def test_what_is_no_record_is_named_with_its_index(
    returned: str, says: str, tmp_path: Path
) -> None:
    path = write(tmp_path, f"def make(seed, index): return {returned}")
    with pytest.raises(UsageError) as caught:
        prepare(path, 5)
    assert str(caught.value).startswith(f"{path}:make:5:0: ")
    assert says in str(caught.value)


def test_indices_without_a_record_can_be_left_out(tmp_path: Path) -> None:
    code = EXAMPLE.replace("    return", "    assert index % 2, 'even'\n    return")
    prepared, train, val = prepare(write(tmp_path, code), 40, skip_unusable=True)
    assert (prepared.unusable, len(train) + len(val)) == (20, 20)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
def test_code_that_another_user_could_have_written_is_not_executed(tmp_path: Path) -> None:
    path = write(tmp_path, f"import other\n{EXAMPLE}")
    (tmp_path / "other.py").write_text("")
    os.chown(tmp_path / "other.py", 54_321, 54_321)
    with pytest.raises(UsageError, match=r"other.py is owned by .*; nothing was executed"):
        make(path)


def test_arrays_and_scalars_of_numpy_are_values(tmp_path: Path) -> None:
    code = "import numpy\ndef make(seed, index): return {'a': numpy.int64(3), 'b': numpy.ones(2)}"
    assert make(write(tmp_path, code), count=1) == [{"a": 3, "b": [1.0, 1.0]}]
