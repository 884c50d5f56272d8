"""The files of a split are those that the hub itself would read."""

from __future__ import annotations

import glob
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.data.hub_source import CONVERTED, Found, find_file, find_split

CARD = """---
license: mit
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: ["main/test-*"]
- config_name: socratic
  data_files:
  - split: train
    path: socratic/**
---
# Sums
"""
GSM = [
    ".gitattributes",
    "README.md",
    "main/train-00000-of-00002.parquet",
    "main/train-00001-of-00002.parquet",
    "main/test-00000-of-00001.parquet",
    "socratic/train-00000-of-00001.parquet",
]


def files(
    paths: list[str], split: str | None = None, config: str | None = None, card: str = ""
) -> list[str]:
    return list(find_split(paths, card, config, split).files)


def card(yaml: str) -> str:
    return f"---\n{yaml}\n---\n"


def test_a_card_names_configs_and_splits() -> None:
    assert find_split(GSM, CARD, "main", None) == Found("main", "train", tuple(GSM[2:4]))
    assert files(GSM, "test", "main", CARD) == [GSM[4]]
    assert files(GSM, None, "socratic", CARD) == [GSM[5]]


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [
        ("configs: [{config_name: a, data_files: '*.csv'}]", ["a.csv", "b.csv"]),
        ("configs: [{data_files: [a.csv, c/*.csv]}]", ["a.csv", "c/d.csv"]),
        ("configs: [{data_files: {train: ./b.csv}}]", ["b.csv"]),
        ("configs: [{data_files: '**/*.csv'}]", ["a.csv", "b.csv", "c/d.csv"]),
        ("configs: [{data_dir: c}]", ["c/d.csv"]),
        ("configs: [{data_dir: c, data_files: d.csv}]", ["c/d.csv"]),
        ("configs: [{config_name: x, data_files: a.csv}, {data_files: b.csv}]", ["b.csv"]),
        (
            "configs: [{config_name: x, data_files: a.csv}, "
            "{config_name: y, default: true, data_files: b.csv}]",
            ["b.csv"],
        ),
        ("configs: [main, socratic]", ["a.csv", "b.csv", "c/d.csv"]),
        ("configs: [{data_files: '[!a].csv'}]", ["b.csv"]),
    ],
)
def test_every_form_of_data_files_is_read(yaml: str, expected: list[str]) -> None:
    assert files(["a.csv", "b.csv", "c/d.csv"], card=card(yaml)) == expected


@pytest.mark.parametrize(
    ("paths", "split", "expected"),
    [
        (["train.jsonl", "test.jsonl"], None, ["train.jsonl"]),
        (["data/train.csv", "data/dev.csv"], "validation", ["data/dev.csv"]),
        (["x_no_train.jsonl", "x_no_test.jsonl"], "test", ["x_no_test.jsonl"]),
        (["train/1.json", "train/2.json", "eval/1.json"], None, ["train/1.json", "train/2.json"]),
        (
            ["data/easy-00000-of-00001.parquet", "data/hard-00000-of-00001-ab.parquet"],
            "hard",
            ["data/hard-00000-of-00001-ab.parquet"],
        ),
        (["sums.csv", "constrained.csv"], None, ["constrained.csv", "sums.csv"]),
        (["test.parquet", "README.md", "dataset_infos.json"], None, ["test.parquet"]),
        (["a.jsonl", "b.jsonl", "a.parquet", "script.py", ".x/c.jsonl"], None, "ab"),
    ],
)
def test_without_a_card_names_of_files_and_folders_decide(
    paths: list[str], split: str | None, expected: list[str] | str
) -> None:
    if isinstance(expected, str):
        expected = [f"{name}.jsonl" for name in expected]
    assert files(paths, split) == expected


def test_the_hubs_parquet_copy_has_folders_of_configs_and_splits() -> None:
    paths = ["en/train/0000.parquet", "en/train/0001.parquet", "de/train/0000.parquet"]
    found = find_split(paths, "", "en", None, CONVERTED)
    assert found == Found("en", "train", tuple(paths[:2]))


@pytest.mark.parametrize(
    ("paths", "head", "config", "split", "says"),
    [
        (GSM, CARD, None, None, "several configs. Choose one: --config-name main or socratic"),
        (GSM, "", None, None, "--config-name default or main or socratic"),
        (GSM, CARD, "socrates", None, "has no config 'socrates'; it has socratic, main"),
        (GSM, CARD, "main", "tes", "has no split 'tes' in config main; it has test, train"),
        (["dev.csv", "test.csv"], "", None, None, "Choose one: --split validation or test"),
        (["sums.py", "README.md"], "", None, None, "a script (sums.py), which is not executed"),
        (["README.md"], "", None, None, "has no data files; it has README.md"),
        (["train.jsonl.gz"], "", None, None, "not read (.jsonl.gz), only .jsonl, .json"),
        (["data/train.arrow"], "", None, None, "--revision refs/convert/parquet"),
        (["a.csv"], card("configs: ["), None, None, "README.md whose head is not YAML"),
    ],
)
def test_what_cannot_be_chosen_is_answered_with_what_exists(
    paths: list[str], head: str, config: str | None, split: str | None, says: str
) -> None:
    with pytest.raises(UsageError) as error:
        find_split(paths, head, config, split)
    assert says in str(error.value)


def test_one_file_can_be_named() -> None:
    assert find_file(GSM, GSM[2]).files == (GSM[2],)
    with pytest.raises(UsageError, match=r"no file 'main/test'; it has main/test-00000"):
        find_file(GSM, "main/test")


NAMES = st.lists(st.text(st.sampled_from("atrin-_.[]*/0"), min_size=1, max_size=12), max_size=5)


@given(NAMES, st.text(max_size=30), st.none() | st.text(max_size=5))
def test_any_data_set_has_a_split_or_a_reason(
    paths: list[str], pattern: str, split: str | None
) -> None:
    paths = [f"{path}x.csv".replace("//", "/").lstrip("/") for path in paths]
    heads = ("", card(f"configs: [{{data_files: {pattern!r}}}]"), card(pattern))
    for head in heads:
        try:
            found = find_split(paths, head, None, split)
        except UsageError:
            continue
        assert found.files
        assert set(found.files) <= set(paths)


@given(st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/"), min_size=1))
def test_an_escaped_name_matches_itself_alone(name: str) -> None:
    pattern = json.dumps(f"a/x{glob.escape(name)}.csv", ensure_ascii=False)
    paths = [f"a/x{name}.csv", f"a/x{name}z.csv", "a/z.csv"]
    assert files(paths, card=card(f"configs: [{{data_files: {pattern}}}]")) == paths[:1]
