"""Credentials: found under either name, judged by provider, never shown."""

from __future__ import annotations

from engine.preflight.check import Check
from tests.engine.preflight.project import Project

SECRET = "sk-abcdefghijklmnopqrstuvwxa1b2"
URL = "https://rubrics.openai.azure.com/"


def answer(project: Project, env: dict[str, str], *overrides: str) -> Check:
    return project.checks("grpo", *overrides, env=env)["credentials"]


def test_the_offline_judge_needs_none(project: Project) -> None:
    assert answer(project, {}).status == "ok"


def test_sft_asks_no_judge(project: Project) -> None:
    assert project.checks("sft")["credentials"].status == "ok"


def test_azure_accepts_either_family_and_says_which(project: Project) -> None:
    new = {"AZURE_OPENAI_ENDPOINT": URL, "AZURE_OPENAI_API_KEY": SECRET}
    old = {"AZURE_API_BASE": URL, "AZURE_API_KEY": SECRET}
    assert "AZURE_OPENAI_API_KEY=" in answer(project, new, "judge.provider=azure").message
    assert "AZURE_API_KEY=" in answer(project, old, "judge.provider=azure").message
    both = answer(project, {**new, **old}, "judge.provider=azure").message
    assert both.startswith("AZURE_OPENAI_API_KEY=")
    assert both.endswith("; AZURE_API_KEY is not")


def test_half_a_family_names_the_missing_half(project: Project) -> None:
    check = answer(project, {"AZURE_API_BASE": URL}, "judge.provider=azure")
    assert check.status == "fail"
    assert "AZURE_API_BASE is set but AZURE_API_KEY is not" in check.message


def test_a_key_is_masked(project: Project) -> None:
    check = answer(project, {"OPENAI_API_KEY": SECRET}, "judge.provider=openai")
    assert check.status == "ok"
    assert "=…a1b2 is used" in check.message
    assert SECRET not in check.message


def test_a_short_key_is_hidden_altogether(project: Project) -> None:
    check = answer(project, {"OPENAI_API_KEY": "sk-short"}, "judge.provider=openai")
    assert "short" not in check.message


def test_windows_line_ends_are_recognised_without_showing_the_value(project: Project) -> None:
    check = answer(project, {"OPENAI_API_KEY": SECRET + "\r"}, "judge.provider=openai")
    assert check.status == "warn"
    assert "carriage return" in check.message
    assert "abcdef" not in check.message


def test_windows_line_ends_of_an_endpoint_are_recognised_too(project: Project) -> None:
    env = {"AZURE_API_BASE": URL + "\r", "AZURE_API_KEY": SECRET}
    check = answer(project, env, "judge.provider=azure")
    assert check.status == "warn"
    assert "AZURE_API_BASE ends in a carriage return" in check.message


def test_an_endpoint_must_be_a_url(project: Project) -> None:
    env = {"AZURE_OPENAI_ENDPOINT": "rubrics", "AZURE_OPENAI_API_KEY": SECRET}
    check = answer(project, env, "judge.provider=azure")
    assert check.status == "fail"
    assert "'rubrics' is not an http(s) URL" in check.message


def test_a_key_with_characters_that_no_key_has_is_refused(project: Project) -> None:
    env = {"OPENAI_API_KEY": "sk-abcdefgh\u200bijklmnop"}
    check = answer(project, env, "judge.provider=openai")
    assert check.status == "fail"
    assert "abcdefgh" not in check.message


def test_a_judge_on_this_machine_needs_no_key(project: Project) -> None:
    overrides = ("judge.provider=openai", "judge.base_url=http://127.0.0.1:8000/v1")
    assert answer(project, {}, *overrides).status == "ok"


def test_a_judge_elsewhere_without_a_key_is_a_warning(project: Project) -> None:
    overrides = ("judge.provider=openai", "judge.base_url=http://judge.example.org/v1")
    assert answer(project, {}, *overrides).status == "warn"


def test_wandb_without_a_login_is_a_warning(project: Project) -> None:
    check = answer(project, {}, "trainer.logger=[console,wandb]")
    assert check.status == "warn"
    assert answer(project, {"WANDB_MODE": "offline"}, "trainer.logger=[wandb]").status == "ok"
