"""Prepared files written again with and without answer excerpts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.data.adapters import Example
from engine.data.contract import (
    FileFacts,
    Row,
    read_facts,
    read_rows,
    rewrite_prompts,
    write_rows,
    write_with_excerpts,
)
from engine.data.prepare import to_row

EXAMPLES = (
    Example("a", "Why?", "", answers=("because", "no idea"), gold_scores=(1.0, 0.0)),
    Example("b", "How?", "A case.", answers=("so", "thus"), gold_scores=(0.2, 0.9)),
)


def prepared(path: Path, *, use_contrastive: bool) -> Path:
    rows = [to_row(e, "set", "open_rubric", "train", use_contrastive) for e in EXAMPLES]
    write_rows(path, rows, FileFacts("p", "train", use_contrastive, None, 1))
    return path


@pytest.mark.parametrize("wanted", [True, False])
def test_the_result_is_what_prepare_writes(tmp_path: Path, wanted: bool) -> None:
    source = prepared(tmp_path / "source.parquet", use_contrastive=not wanted)
    direct = prepared(tmp_path / "direct.parquet", use_contrastive=wanted)
    write_with_excerpts(source, tmp_path / "out.parquet", use_contrastive=wanted)
    assert read_rows(tmp_path / "out.parquet") == read_rows(direct)
    assert read_facts(tmp_path / "out.parquet") == read_facts(direct)


def test_a_file_that_would_not_change_is_refused(tmp_path: Path) -> None:
    source = prepared(tmp_path / "source.parquet", use_contrastive=True)
    with pytest.raises(UsageError, match="no prompt would change"):
        rewrite_prompts(source, use_contrastive=True)


def test_questions_without_ranked_answers_have_no_excerpts_to_add(tmp_path: Path) -> None:
    bare = [replace(example, gold_scores=(0.5, 0.5)) for example in EXAMPLES]
    rows = [to_row(example, "set", "open_rubric", "train", False) for example in bare]
    write_rows(tmp_path / "bare.parquet", rows, FileFacts("p", "train", False, None, 1))
    with pytest.raises(UsageError, match="no prompt would change"):
        rewrite_prompts(tmp_path / "bare.parquet", use_contrastive=True)


def test_a_prompt_of_another_program_is_refused(tmp_path: Path) -> None:
    source = prepared(tmp_path / "source.parquet", use_contrastive=False)
    rows: list[Row] = read_rows(source)
    rows[1]["prompt"][-1]["content"] += "\nBe brief."
    facts = read_facts(source)
    assert facts is not None
    write_rows(tmp_path / "edited.parquet", rows, facts)
    with pytest.raises(UsageError, match="prompt of 'b' was not written by"):
        rewrite_prompts(tmp_path / "edited.parquet", use_contrastive=True)
