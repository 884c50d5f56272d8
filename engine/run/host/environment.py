"""What a run ran on: software, code, machine and data, taken before its first step."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import psutil
from msgspec import Struct

from engine.base.errors import PackageError, UsageError
from engine.base.files import content_hash, sampled_hash
from engine.base.judge_providers import variable_prefixes
from engine.base.masking import shown
from engine.base.parquet import pa, pq
from engine.base.typed import to_json
from engine.run.host.system import open_gpus
from engine.run.manifest import FileFacts

PACKAGES = (
    "torch",
    "verl",
    "ray",
    "transformers",
    "tokenizers",
    "tensordict",
    "TransferQueue",
    "accelerate",
    "datasets",
    "peft",
    "trl",
    "vllm",
    "flash-attn",
    "numpy",
    "pyarrow",
    "openai",
    "wandb",
    "textual",
)

_PREFIXES = (
    "GRUBRICS_",
    "VERL_",
    "RAY_",
    "CUDA_",
    "WANDB_",
    "HF_",
    "NCCL_",
    "PYTORCH_",
    "REWARD_",
    "JUDGE_",
    "RUBRIC_",
)
_NAMES = frozenset({"USE_CONTRASTIVE", "OMP_NUM_THREADS", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV"})
_CHECKOUT = Path(__file__).resolve().parents[3]
_GPU_CONSTRAINTS = tuple(
    folder / "constraints-gpu.txt" for folder in (_CHECKOUT, _CHECKOUT / "engine")
)
"""In a checkout, or as ``setup.py`` packages it."""
_READ_WHOLE = 64 << 20
"""Bytes of a file of a model."""
_GIT_PATIENCE_S = 5.0


def environment_snapshot(env: Mapping[str, str] | None = None) -> dict[str, object]:
    """Python, packages and the variables that steer a run; secrets are masked."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "packages": package_versions(),
        "variables": steering_variables(os.environ if env is None else env),
    }


def steering_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer a run; secrets are masked."""
    prefixes = (*_PREFIXES, *variable_prefixes())
    return {
        name: shown(name, env[name])
        for name in sorted(env)
        if name in _NAMES or name.startswith(prefixes)
    }


def package_versions() -> dict[str, str]:
    """Versions of the packages that decide how a run behaves; missing ones are left out."""
    versions = ((name, package_version(name)) for name in PACKAGES)
    return {name: version for name, version in versions if version is not None}


def program_snapshot(program: str) -> dict[str, object] | None:
    """Python and packages of the environment that a program belongs to, without executing it: a
    Python, or a script of one. None for other programs."""
    found = shutil.which(program)
    if found is None:
        return None
    path = Path(found)
    with path.open("rb") as file:
        is_script = re.match(rb"#!.*python", file.read(200)) is not None
    if not is_script and not re.fullmatch(r"python[\d.]*", path.name):
        return None
    folders = sorted(path.absolute().parent.parent.glob("lib/python3*/*-packages"))
    versions: dict[str, str] = {}
    for name in PACKAGES:
        found_in = metadata.distributions(name=name, path=list(map(str, folders)))
        if (distribution := next(iter(found_in), None)) is not None:
            versions[name] = distribution.version
    python = folders[0].parent.name.removeprefix("python") if folders else None
    return {"python": python, "packages": versions} if python else None


def package_version(name: str) -> str | None:
    """The installed version of a distribution, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def install_command(extra: str) -> str:
    """Return the command that adds an extra of this program to its own environment.

    The program is named by where it was installed from, ``CHECKOUT`` if that is not recorded: the
    package index may have another package of that name. The extra ``gpu`` is installed as the set
    that was tested.
    """
    files = [path for path in _GPU_CONSTRAINTS if extra == "gpu" and path.is_file()]
    pins = f" -c {shlex.quote(str(files[0]))}" if files else ""
    if package_version("grubrics-tui") is None:
        return f"{_pip()}{pins} -e {shlex.quote(f'{_CHECKOUT}[{extra}]')}"
    wanted = shlex.quote(_source(extra))
    if (Path(sys.prefix) / "uv-receipt.toml").is_file():
        return f"uv tool install --force{pins} {wanted}"
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return f"pipx install --force {wanted}"
    return f"{_pip()}{pins} {wanted}"


def _pip() -> str:
    """The pip of this environment; uv for one that has none."""
    python = shlex.quote(sys.executable)
    if shutil.which("pip") == str(Path(sys.executable).with_name("pip")):
        return "pip install"
    has_pip = find_spec("pip") is not None
    return f"{python} -m pip install" if has_pip else f"uv pip install --python {python}"


def _source(extra: str) -> str:
    """This program with an extra, as an installer finds it: where it was installed from. The
    package index does not have it."""
    try:
        text = metadata.distribution("grubrics-tui").read_text("direct_url.json")
        origin = json.loads(text or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    url, version_control = str(origin.get("url") or ""), origin.get("vcs_info")
    if version_control:
        return f"grubrics-tui[{extra}] @ {version_control.get('vcs', 'git')}+{url}"
    if url.startswith("file://"):
        return f"{url2pathname(urlsplit(url).path)}[{extra}]"
    return f"grubrics-tui[{extra}] @ {url}" if url else f"CHECKOUT[{extra}]"


def git_snapshot(cwd: Path) -> dict[str, object] | None:
    """Commit, branch and whether files differ from it; None outside a repository."""
    commit = _git(cwd, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(cwd, "status", "--porcelain")
    return {
        "commit": commit,
        "branch": _git(cwd, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": None if changed is None else bool(changed),
    }


def hardware_snapshot() -> dict[str, object]:
    """CPU, memory (bytes) and GPUs of this machine."""
    return {
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "gpus": to_json(gpus()),
    }


class GpuFacts(Struct, frozen=True):
    """An NVIDIA GPU; ``memory`` in bytes."""

    index: int
    name: str
    memory: int | None


def gpus() -> list[GpuFacts]:
    """Every NVIDIA GPU; empty without a driver."""
    samples = (gpu.sample(set()) for gpu in open_gpus())
    return [GpuFacts(each.index, each.name, each.mem_total) for each in samples]


def fingerprint(path: Path) -> FileFacts:
    """SHA-256, size in bytes, and rows of a parquet or JSONL file (None for other files).

    Raises UsageError when the file cannot be read.
    """
    try:
        size = path.stat().st_size
        return FileFacts(sha256=content_hash(path), bytes=size, rows=_rows(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def model_fingerprint(path: Path) -> FileFacts:
    """``fingerprint`` of a file of a model; of a large one ``sampled_sha256`` in place of
    ``sha256``. Raises UsageError when the file cannot be read."""
    try:
        size = path.stat().st_size
        if size <= _READ_WHOLE:
            return FileFacts(sha256=content_hash(path), bytes=size)
        return FileFacts(sampled_sha256=sampled_hash(path), bytes=size)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def _rows(path: Path) -> int | None:
    if path.suffix == ".jsonl":
        with path.open("rb") as handle:
            return sum(1 for line in handle if line.strip())
    if path.suffix != ".parquet":
        return None
    try:
        return int(pq.read_metadata(path).num_rows)
    except PackageError:
        return None
    except pa.ArrowException:
        return None


def _git(cwd: Path, *arguments: str) -> str | None:
    """Output of a git command that takes no lock, or None when it fails."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def is_ignored_by_git(path: Path) -> bool | None:
    """Whether git would leave out a file; None outside a repository, and without git."""
    if _git(Path.cwd(), "rev-parse", "--is-inside-work-tree") != "true":
        return None
    return _git(Path.cwd(), "check-ignore", str(path)) is not None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())
