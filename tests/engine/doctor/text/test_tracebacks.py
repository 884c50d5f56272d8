"""Tracebacks are put together from lines that other processes print between."""

from __future__ import annotations

import pytest

from engine.doctor.text.line import read_line
from engine.doctor.text.tracebacks import Raised, Tracebacks, exception_in
from engine.doctor.text.unknown import is_noise, kind_of

HEADER = "Traceback (most recent call last):"
FRAME = '  File "/a.py", line 1, in go'


def raised(*lines: str) -> list[Raised]:
    tracebacks = Tracebacks()
    result = [tracebacks.read(read_line(line.encode())) for line in lines]
    return [one for one in result if one is not None]


def test_frames_and_exception() -> None:
    [one] = raised(HEADER, '  File "/a.py", line 1, in go', "    go()", "ValueError: no")
    assert (one.type, one.message, one.frames) == ("ValueError", "no", ("/a.py:go",))


def test_the_source_of_the_innermost_frame_is_kept() -> None:
    inner = ['  File "/b.py", line 9, in g', "    x.index(None)", "    ^^^^^^^^^^^^^"]
    [one] = raised(HEADER, '  File "/a.py", line 1, in go', "    g()", *inner, "ValueError: no")
    assert one.code == "x.index(None)"


def test_a_call_over_several_lines_is_kept_as_one() -> None:
    call = ["    return foo(", "        a,", "        b // c,", "        ~~^^~~", "    )"]
    [one] = raised(HEADER, '  File "/a.py", line 1, in go', *call, "ZeroDivisionError: no")
    assert one.code == "return foo( a, b // c, )"


def test_of_a_call_over_many_lines_the_first_are_kept() -> None:
    call = ["    foo(", *(f"        {number}," for number in range(99)), "    )"]
    [one] = raised(HEADER, '  File "/a.py", line 1, in go', *call, "ValueError: no")
    assert one.code == "foo( 0, 1, 2, 3, 4, 5, 6, 7, 8,"


def test_a_printed_line_is_no_program_text() -> None:
    [one] = raised(HEADER, '  File "/a.py", line 1, in go', "loss: 3", "    go()", "ValueError: no")
    assert one.code == "go()"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("    need(rows)", "NotEnoughRows: 3 < 16"),
        ("    raise NotEnoughRows(f'{n} < 16')", "NotEnoughRows: 3 < 16"),
        ("    raise errors.Preempted(", "Preempted"),
    ],
)
def test_an_exception_may_have_any_name_right_below_the_frames(code: str, text: str) -> None:
    [one] = raised(HEADER, FRAME, code, "    ^^^^^^^", text)
    assert (one.type, *filter(None, [one.message])) == tuple(text.split(": "))


@pytest.mark.parametrize(
    "lines",
    [
        (HEADER, FRAME, "    go()", "Epoch: 3"),
        (HEADER, FRAME, "    go()", "Loading: 50%"),
        (HEADER, FRAME, "    go()", "DataLoader"),
        (HEADER, FRAME, "    raise NotEnoughRows(n)", "DataLoader: 4 workers"),
        (HEADER, FRAME, "    go()", "a printed line", "DataLoader: 4 workers"),
        (HEADER, "DataLoader: 4 workers"),
        (FRAME, "    go()", "DataLoader: 4 workers"),
    ],
)
def test_other_printed_lines_end_no_traceback(lines: tuple[str, ...]) -> None:
    [one] = raised(*lines, FRAME, "    go()", "ValueError: no")
    assert one.type == "ValueError"


GROUP = [
    f"  + Exception Group {HEADER}",
    '  |   File "/a.py", line 1, in main',
    "  |     raise ExceptionGroup('x', found)",
    "  | ExceptionGroup: x (2 sub-exceptions)",
    "  +-+---------------- 1 ----------------",
]


def told(*lines: str) -> list[tuple[str, str]]:
    return [(one.type, one.innermost) for one in raised(*lines) if not one.is_ignored]


def test_a_group_only_wraps_the_exceptions_in_it() -> None:
    inner = [f"    | {HEADER}", '    |   File "/b.py", line 9, in go', "    | KeyError: 'x'"]
    more = ["    +---------------- 2 ----------------", *inner[:2], "    | OSError: y"]
    assert told(*GROUP, *inner, *more) == [("KeyError", "/b.py:go"), ("OSError", "/b.py:go")]


def test_an_exception_in_a_group_that_was_never_raised_has_the_frames_of_the_group() -> None:
    assert told(*GROUP, "    | ValueError: no") == [("ValueError", "/a.py:main")]


def test_a_group_in_a_group_wraps_too() -> None:
    nested = [f"  {line}".replace("+ E", "| E") for line in GROUP]
    inner = [f"      | {HEADER}", '      |   File "/c.py", line 2, in f', "      | KeyError: 'x'"]
    assert told(*GROUP, *nested, *inner) == [("KeyError", "/c.py:f")]


def test_two_ranks_interleaved() -> None:
    first, second = raised(
        f"[rank0]: {HEADER}",
        f"[rank1]: {HEADER}",
        '[rank1]:   File "/one.py", line 1, in f',
        '[rank0]:   File "/zero.py", line 1, in f',
        "[rank0]: KeyError: 'x'",
        "[rank1]: ValueError: y",
    )
    assert (first.innermost, second.innermost) == ("/zero.py:f", "/one.py:f")


def test_printed_lines_between_do_not_end_it() -> None:
    [one] = raised(HEADER, "loss: 3", '  File "/a.py", line 1, in f', "hello", "OSError")
    assert one.type == "OSError"


def test_a_ray_error_begins_a_traceback_of_its_own() -> None:
    outer = "ray.exceptions.RayTaskError(TypeError): ray::Runner.run() (pid=5, ip=1.2.3.4)"
    [one] = raised(outer, '  File "/w.py", line 2, in run', "TypeError: bad")
    assert one.innermost == "/w.py:run"


def test_an_ignored_exception_is_marked() -> None:
    [one] = raised(
        "Exception ignored in: <function X.__del__>",
        HEADER,
        '  File "/a.py", line 1, in f',
        "OSError",
    )
    assert one.is_ignored


def test_the_number_of_open_tracebacks_is_bounded() -> None:
    tracebacks = Tracebacks()
    for rank in range(500):
        tracebacks.read(read_line(f"[rank{rank}]: {HEADER}".encode()))
    for _ in range(500):
        tracebacks.read(read_line(b"nothing"))
    assert not tracebacks.any_open


@pytest.mark.parametrize(
    "text", ["ValueError: no", "a.b.CustomError", "KeyboardInterrupt", "socket.timeout: x"]
)
def test_lines_that_name_an_exception(text: str) -> None:
    assert exception_in(text) is not None


def test_an_exception_that_two_ranks_wrote_into_one_line_is_one() -> None:
    assert exception_in("KeyErrorKeyError: : 'column'") == ("KeyError", "'column'")


def test_a_traceback_that_is_cut_off_is_named_by_the_line_that_raises() -> None:
    tracebacks = Tracebacks()
    for text in (HEADER, '  File "/a.py", line 1, in go', "    raise ConnectTimeout(error)"):
        tracebacks.read(read_line(text.encode()))
    assert [raised.type for raised in tracebacks.torn()] == ["ConnectTimeout"]


def test_frames_of_windows_have_slashes() -> None:
    [one] = raised(
        HEADER, r'  File "D:\envs\site-packages\wandb\run.py", line 1, in go', "OSError: x"
    )
    assert one.frames == ("D:/envs/site-packages/wandb/run.py:go",)


@pytest.mark.parametrize("text", ["Epoch: 3", "INFO: fine", "Error is a word", "loss: 0.3", ""])
def test_lines_that_name_none(text: str) -> None:
    assert exception_in(text) is None


@pytest.mark.parametrize(
    ("file", "text", "category"),
    [
        ("/w/my_reward.py:compute_score", "OddError: x", "reward_function_error"),
        ("/x/site-packages/datasets/load.py:go", "OddError: x", "data_missing_or_schema"),
        ("/x/site-packages/vllm/core.py:go", "OddError: x", "vllm_init_failure"),
        ("/x/site-packages/wandb/sdk/run.py:go", "OddError: x", "wandb_teardown_or_crash"),
        (
            "/x/transformers/tokenization_llama.py:load",
            "TypeError: x",
            "tokenizer_or_chat_template",
        ),
        ("/w/loading.py:load_tokenizer", "OSError: no", "tokenizer_or_chat_template"),
        ("/w/loading.py:build_tokenizer", "OddError: x", "tokenizer_or_chat_template"),
        ("/x/omegaconf/base.py:get", "OddError: x", "config_error"),
        ("/x/site-packages/peft/config.py:load", "OddError: x", "lora_adapter_error"),
        ("/w/x.py:go", "wandb.old_name.OddError: x", "wandb_teardown_or_crash"),
    ],
)
def test_an_unknown_exception_is_sorted_by_its_frames(file: str, text: str, category: str) -> None:
    place, function = file.rsplit(":", 1)
    [one] = raised(HEADER, f'  File "{place}", line 1, in {function}', text)
    kind = kind_of(one)
    assert kind is not None and kind.id.startswith(category)


def test_a_special_token_that_is_none_is_the_tokenizers() -> None:
    frame = ['  File "/w/batches.py", line 3, in cut', "    at = ids.index(tok.bos_token_id)"]
    [one] = raised(HEADER, *frame, "ValueError: None is not in list")
    kind = kind_of(one)
    assert kind is not None and kind.id == "tokenizer_or_chat_template.missing_token"


def test_an_assertion_on_dtypes_is_about_dtypes() -> None:
    frame = ['  File "/w/parts.py", line 3, in join', "    assert first.dtype == second.dtype"]
    [one] = raised(HEADER, *frame, "AssertionError")
    kind = kind_of(one)
    assert kind is not None and kind.id == "dtype_or_attention_error.asserted"


def test_what_python_raises_while_it_ends_is_noise() -> None:
    frame = '  File "/usr/lib/python3.11/multiprocessing/resource_tracker.py", line 1, in main'
    [one] = raised(HEADER, frame, "KeyError: '/psm'")
    assert is_noise(one)
