"""Credentials: found under either name, judged by provider, never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checks.check import Check
from tests.engine.checks.project import Project

pytestmark = pytest.mark.long

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
    assert "AZURE_API_BASE ends with a carriage return" in check.message


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


def test_a_wandb_key_that_is_too_short_is_a_warning_without_the_key(project: Project) -> None:
    check = answer(project, {"WANDB_API_KEY": "shortened"}, "trainer.logger=[wandb]")
    assert (check.status, "9 characters" in check.message) == ("warn", True)
    assert "shortened" not in check.message


def test_a_wandb_folder_that_cannot_be_made_is_a_warning(project: Project) -> None:
    (project.root / "file").touch()
    env = {"WANDB_MODE": "offline", "WANDB_DIR": str(project.root / "file" / "logs")}
    check = answer(project, env, "trainer.logger=[wandb]")
    assert (check.status, "is not a folder" in check.message) == ("warn", True)
    env["WANDB_DIR"] = str(project.root / "new" / "logs")
    assert answer(project, env, "trainer.logger=[wandb]").status == "ok"


@pytest.mark.parametrize(
    ("base_url", "machine", "status"),
    [
        (None, "api.wandb.ai", "ok"),
        (None, "api.forge.coreweave.com", "ok"),
        (None, "github.com", "warn"),
        ("https://wandb.example.org", "wandb.example.org", "ok"),
        ("https://wandb.example.org", "api.wandb.ai", "warn"),
    ],
)
def test_a_wandb_login_in_netrc_counts_for_its_host(
    project: Project, tmp_path: Path, base_url: str | None, machine: str, status: str
) -> None:
    file = tmp_path / "netrc"
    file.write_text(f"machine {machine}\n  login user\n  password {'a' * 40}\n")
    file.chmod(0o600)
    env = {"NETRC": str(file)} | ({"WANDB_BASE_URL": base_url} if base_url else {})
    assert answer(project, env, "trainer.logger=[wandb]").status == status


def test_a_netrc_file_that_cannot_be_read_is_no_wandb_login(
    project: Project, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("no netrc at all\n")
    assert answer(project, {"HOME": str(tmp_path)}, "trainer.logger=[wandb]").status == "warn"


FAR = "http://203.0.113.5:8000/v1"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("env", "overrides"),
    [
        ({"OPENAI_API_KEY": SECRET}, ["judge.provider=openai", f"judge.base_url={FAR}"]),
        ({"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": FAR}, ["judge.provider=openai"]),
        (
            {"AZURE_OPENAI_ENDPOINT": FAR, "AZURE_OPENAI_API_KEY": SECRET},
            ["judge.provider=azure"],
        ),
        ({"AZURE_API_BASE": FAR, "AZURE_API_KEY": SECRET}, ["judge.provider=azure"]),
        ({"HF_ENDPOINT": FAR, "HF_TOKEN": SECRET}, []),
        ({"WANDB_BASE_URL": FAR, "WANDB_API_KEY": SECRET}, ["trainer.logger=[console,wandb]"]),
        ({"GUARD_WEBHOOK": FAR}, ["guard.webhook_variable=GUARD_WEBHOOK"]),
    ],
)
def test_a_credential_over_plain_http_to_another_host_is_refused_unless_the_host_is_trusted(
    project: Project, env: dict[str, str], overrides: list[str]
) -> None:
    check = answer(project, env, *overrides)
    assert check.status == "fail"
    assert "would be sent unencrypted to 203.0.113.5: use https" in check.message
    assert SECRET not in check.message
    trusted = answer(project, {**env, "GRUBRICS_ALLOW_HTTP": "203.0.113.5"}, *overrides)
    assert "unencrypted" not in trusted.message


def test_a_cluster_is_no_excuse_for_a_key_in_the_clear(project: Project) -> None:
    env = {"OPENAI_API_KEY": SECRET, "RAY_ADDRESS": "head:6379"}
    check = answer(project, env, "judge.provider=openai", f"judge.base_url={FAR}")
    assert check.status == "fail"


def test_a_server_without_a_key_and_one_on_this_host_may_use_http(project: Project) -> None:
    far = answer(project, {}, "judge.provider=openai", f"judge.base_url={FAR}")
    assert "unencrypted" not in far.message
    near = ["judge.provider=openai", "judge.base_url=http://127.0.0.1:8000/v1"]
    assert answer(project, {"OPENAI_API_KEY": SECRET}, *near).status == "ok"


@pytest.mark.parametrize(
    ("mode", "says"), [(0o666, "writable by everybody and was not read"), (0o640, "read the keys")]
)
def test_a_file_of_keys_that_others_may_open_is_named_with_the_way_to_close_it(
    project: Project, mode: int, says: str
) -> None:
    path = Path(".env")
    path.write_text("A=1\n")
    path.chmod(mode)
    check = answer(project, {})
    assert check.status == "warn" and says in check.message
    assert check.fix is not None and "chmod 600 .env" in check.fix
    path.chmod(0o600)
    assert answer(project, {}).status == "ok"
