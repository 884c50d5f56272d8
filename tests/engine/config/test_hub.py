"""A model of the hub is looked for before a launch, and each way to fail has its own way on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from engine.checks.check import Check
from engine.config.hub import ask, find_token
from tests.engine.checks.project import Project, write_model
from tests.loopback import LoopbackServer, serving

pytestmark = pytest.mark.long

NAME = "acme/small-1b"
TOKEN = "hf_abcdefghijklmnopqrstuvwx"
INVALID = "Invalid credentials in Authorization header"


@dataclass(frozen=True)
class Said:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Hub(LoopbackServer):
    """Answers every request alike and remembers paths and tokens."""

    def __init__(self, said: Said) -> None:
        super().__init__(_Handler)
        self.said = said
        self.paths: list[str] = []
        self.tokens: list[str | None] = []


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.server.paths.append(self.path)
        self.server.tokens.append(self.headers.get("Authorization"))
        self.send_response(self.server.said.status)
        for name, value in self.server.said.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return None


def hub(
    status: int = 200, code: str = "", message: str = "", **headers: str
) -> AbstractContextManager[Hub]:
    errors = {"X-Error-Code": code, "X-Error-Message": message}
    given = {name: value for name, value in errors.items() if value}
    return serving(Hub(Said(status, {**given, **headers})))


def check(project: Project, url: str, **env: str) -> Check:
    home = {"HF_HOME": str(project.root / "hf"), "HF_ENDPOINT": url}
    override = f"actor_rollout_ref.model.path={NAME}"
    return project.checks("grpo", override, env={**home, **env})["checkpoint"]


def test_a_model_that_the_hub_gives_is_fine(project: Project) -> None:
    with hub() as server:
        result = check(project, server.url)
    assert result.status == "ok"
    assert f"{NAME} will be downloaded from {server.url}" in result.message
    assert server.paths == [f"/{NAME}/resolve/main/config.json"]
    assert server.tokens == [None]


def test_a_redirect_to_the_file_is_not_followed(project: Project) -> None:
    with hub(307, Location="http://127.0.0.1:9/elsewhere") as server:
        assert check(project, server.url, HF_TOKEN=TOKEN).status == "ok"
    assert server.tokens == [f"Bearer {TOKEN}"]


CASES = {
    "gated without token": (
        (401, "GatedRepo", ""), {}, "is gated on", "HF_TOKEN is not set", "accept its terms at",
    ),
    "gated with token": (
        (403, "GatedRepo", ""), {"HF_TOKEN": TOKEN}, "is gated on", "has no access",
        "with the account of this token",
    ),
    "forbidden": (
        (403, "", "enable access to gated repositories"), {"HF_TOKEN": TOKEN},
        "has no access", "enable access", "allow it to read gated repositories",
    ),
    "disabled": (
        (403, "", "Access to this resource is disabled."), {"HF_TOKEN": TOKEN},
        "answers 403 Access to this resource is disabled.", "uvwx", "in a browser",
    ),
    "a proxy that refuses": (
        (403, "", ""), {}, "answers 403; HF_TOKEN is not set", "", "in a browser",
    ),
    "wrong token": (
        (401, "", INVALID), {"HF_TOKEN": TOKEN}, "refuses the token of", "uvwx", "set HF_TOKEN",
    ),
    "no such model": (
        (404, "RepoNotFound", ""), {}, "does not exist on", "or is private", "check the spelling",
    ),
    "a stranger": (
        (401, "", "Invalid username or password."), {}, "does not exist on", "not set", "spelling",
    ),
    "no config.json": ((404, "EntryNotFound", ""), {}, "has no config.json", "", "format"),
}  # fmt: skip


@pytest.mark.row("V05")
@pytest.mark.parametrize("case", CASES)
def test_each_refusal_has_its_words_and_way_on(case: str, project: Project) -> None:
    said, env, first, second, way_on = CASES[case]
    with hub(*said) as server:
        result = check(project, server.url, **env)
    assert result.status == "fail"
    assert first in result.message and second in result.message
    assert result.fix is not None and way_on in result.fix
    assert TOKEN not in f"{result}"


@pytest.mark.row("A18")
def test_without_network_the_model_cannot_be_had(project: Project) -> None:
    with hub() as server:
        pass
    result = check(project, server.url)
    assert result.status == "fail"
    assert "cannot be reached (Connection refused)" in result.message
    assert f"grubrics-tui model fetch {NAME}" in str(result.fix)


def test_a_cluster_may_have_the_network_that_is_missing_here(project: Project) -> None:
    result = check(project, "http://127.0.0.1:9", RAY_ADDRESS="10.0.0.1:8265")
    assert result.status == "warn"


@pytest.mark.row("H35")
def test_nodes_with_caches_of_their_own_are_a_warning(project: Project) -> None:
    nodes = ("trainer.nnodes=2", f"actor_rollout_ref.model.path={NAME}")
    shared = "+ray_kwargs.ray_init.runtime_env.env_vars.HF_HOME=/shared/hf"
    env = {"RAY_ADDRESS": "10.0.0.1:8265", "HF_HOME": str(project.root / "hf")}
    with hub() as server:
        env["HF_ENDPOINT"] = server.url
        own = project.checks("grpo", *nodes, env=env)["checkpoint"]
        one = project.checks("grpo", *nodes, shared, env=env)["checkpoint"]
        local = project.checks("grpo", nodes[0], env=env)["checkpoint"]
    assert own.status == "warn"
    assert own.message == f"each of 2 nodes has {NAME} in a hub cache of its own, or downloads it"
    assert "model fetch" in str(own.fix)
    assert (one.status, local.status) == ("ok", "ok")


@pytest.mark.row("H35")
def test_ranks_that_would_all_download_are_a_warning(project: Project) -> None:
    ranks = ("trainer.n_gpus_per_node=2", f"actor_rollout_ref.model.path={NAME}")
    with hub() as server:
        env = {"HF_HOME": str(project.root / "hf"), "HF_ENDPOINT": server.url}
        before = project.checks("grpo", *ranks, env=env)["checkpoint"]
        cache = project.root / "hf/hub"
        write_model(cache / f"models--{NAME.replace('/', '--')}/snapshots/abc")
        after = project.checks("grpo", *ranks, env=env)["checkpoint"]
    assert before.message == f"each of 2 ranks starts to download {NAME} when training starts"
    assert before.fix == f"grubrics-tui model fetch {NAME}"
    assert after.status == "ok"


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_hub_is_a_warning(status: int, project: Project) -> None:
    with hub(status) as server:
        assert check(project, server.url).status == "warn"


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_means_that_the_hub_is_not_asked(variable: str, project: Project) -> None:
    with hub() as server:
        result = check(project, server.url, **{variable: "1"})
    assert result.status == "fail" and f"{variable} disables" in result.message
    assert server.paths == []


def test_a_cached_model_is_not_asked_for(project: Project) -> None:
    cache = project.root / "hf/hub"
    write_model(cache / f"models--{NAME.replace('/', '--')}/snapshots/abc")
    with hub() as server:
        assert check(project, server.url).status == "ok"
    assert server.paths == []


def test_a_model_of_which_the_cache_has_a_part_is_asked_for(project: Project) -> None:
    snapshot = project.root / f"hf/hub/models--{NAME.replace('/', '--')}/snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    with hub() as server:
        result = check(project, server.url)
    assert result.status == "ok" and "will be downloaded" in result.message
    assert len(server.paths) == 1


def test_a_token_is_never_sent_in_the_clear_to_another_host(project: Project) -> None:
    result = check(project, "http://hub.example", HF_TOKEN=TOKEN)
    assert result.status == "fail"
    assert "plain http" in result.message and TOKEN not in result.message


def test_an_endpoint_that_is_no_address_is_named(project: Project) -> None:
    assert "HF_ENDPOINT=hub is not an http(s) address" in check(project, "hub").message


def test_the_token_of_a_login_is_sent_unless_that_is_switched_off(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    env = {"HF_HOME": str(tmp_path)}
    assert find_token(env) == (TOKEN, str(tmp_path / "token"))
    assert find_token({**env, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}) is None
    with hub() as server:
        assert ask(NAME, {**env, "HF_ENDPOINT": server.url}).state == "there"
    assert server.tokens == [f"Bearer {TOKEN}"]


@pytest.mark.row("V05")
def test_a_model_on_the_disk_needs_neither_token_nor_hub(project: Project) -> None:
    with hub(401, "GatedRepo") as server:
        result = project.checks("grpo", env={"HF_ENDPOINT": server.url})["checkpoint"]
    assert result.message == "models/base is complete; starts from step 0"
    assert server.paths == []
