"""Records are read from every kind of file that people have, each with the number of its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.base.records import read_records

RECORDS = [{"question": "2 + 3?", "answer": "5"}, {"question": "a, b", "answer": "6\n7"}]


def write(path: Path) -> Path:
    """``RECORDS`` in the format that the name asks for."""
    lines = [f'"{record["question"]}"\t"{record["answer"]}"' for record in RECORDS]
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(RECORDS), path)
        case ".json":
            path.write_text(json.dumps(RECORDS))
        case ".jsonl":
            path.write_text("\n\n".join(map(json.dumps, RECORDS)) + "\n")
        case suffix:
            table = "\n".join(["question\tanswer", *lines])
            path.write_text(table.replace("\t", "," if suffix == ".csv" else "\t"))
    return path


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("a.jsonl", [1, 3]),
        ("a.csv", [2, 4]),
        ("a.TSV", [2, 4]),
        ("a.json", [0, 1]),
        ("a.parquet", [0, 1]),
    ],
)
def test_a_file_is_read_with_the_numbers_of_its_records(
    tmp_path: Path, name: str, numbers: list[int]
) -> None:
    path = write(tmp_path / name.lower()).rename(tmp_path / name)
    assert list(read_records(path)) == list(zip(numbers, RECORDS, strict=True))


def test_a_list_inside_an_object_is_the_list_of_records(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": 1, "data": RECORDS}))
    assert [record for _, record in read_records(path)] == RECORDS


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_half_a_surrogate_pair_becomes_a_question_mark(tmp_path: Path, name: str) -> None:
    record = '{"question": "\\ud800", "answer": NaN}'
    (tmp_path / name).write_text(f"[{record}]" if name == "a.json" else record)
    [(_, read)] = read_records(tmp_path / name)
    assert read["question"] == "?"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", "the name must end in .jsonl, .json, .csv, .tsv or .parquet"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', "line 2 is not a JSON object"),
        ("a.json", b"{", "is not JSON"),
        ("a.json", b"[" * 100_000, "is not JSON"),
        ("a.json", b"1", "not a list of records"),
        ("a.json", b'[{"a": 1}, 2]', "item 1 is not a JSON object"),
        ("a.json", b'{"a": [1], "b": [2]}', "neither a list nor an object with one list"),
        ("a.csv", b"a,b\n1,2\n3\n", "line 3 does not have 2 columns"),
        ("a.csv", b"a,b\n1,2,3\n", "line 2 does not have 2 columns"),
        ("a.csv", b'a,b\n1,"2\n', "line 2: unexpected end of data"),
        ("a.csv", b"a\n\xff\n", "line 2 is not UTF-8 (byte 0xff); if it is Latin-1, convert it"),
        (
            "a.csv",
            "a,b\n1,2\n".encode("utf-16"),
            "a.csv is UTF-16, not UTF-8; convert it: iconv -f",
        ),
        ("a.csv", "a,b\n1,2\n".encode("utf-16-le"), "line 1 has zero bytes, as UTF-16 does"),
        ("a.csv", "a,b\n1,ä\n".encode("latin-1"), "line 2 is not UTF-8 (byte 0xe4)"),
        ("a.jsonl", '{"a": "ä"}\n'.encode("latin-1"), "line 1 is not UTF-8 (byte 0xe4)"),
        ("a.jsonl", '{"a": 1}\n'.encode("utf-16"), "a.jsonl is UTF-16"),
        ("a.json", '[{"a": "ä"}]'.encode("latin-1"), "line 1 is not UTF-8"),
        ("a.json", '[{"a": 1}]'.encode("utf-16-be"), "UTF-16"),
        ("a.csv", b"a,b,a\n1,2,3\n", "line 1 has several columns named 'a'; rename them"),
        ("a.csv", b"a,a\n", "line 1 has several columns named 'a'"),
        ("a.parquet", b"PAR1", "cannot be read as parquet"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(says)) as error:
        list(read_records(tmp_path / name))
    assert str(tmp_path / name) in str(error.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.csv does not exist"):
        read_records(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="is a folder"):
        read_records(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "a;b\n1;2\n"),
        ("a.csv", '"a";"b"\n1;"2"\n'),
        ("a.csv", "a\tb\n1\t2\n"),
        ("a.tsv", "a,b\n1,2\n"),
        ("a.csv", "a|b\n1|2\n"),
    ],
)
def test_the_separator_of_a_table_is_that_of_its_first_line(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert [record for _, record in read_records(tmp_path / name)] == [{"a": "1", "b": "2"}]
