"""The command line that launches a config in a container: nothing here starts one.

Every folder is mounted at its own path, so that the paths in configs and manifests stay valid. Keys
are not on the command line: ``.env`` is in the mounted project, and variables of the shell are
passed by their names.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec import Struct

from engine.base.text import format_command
from engine.checks.environment import GPU_SET
from engine.config import hub
from engine.config.credentials import known_variables
from engine.config.keys import verl_version
from engine.config.load import Config
from engine.config.places import checkpoint_dir, is_hub_name, model_name

Engine = Literal["docker", "apptainer"]
ENGINES: tuple[Engine, ...] = ("docker", "apptainer")
_BASE = "python:3.12-slim"
# Triton, which vLLM and torch compile with, needs a C compiler.
_SYSTEM = "apt-get update && apt-get install -y --no-install-recommends build-essential git"
_PASSED = (
    "CUDA_VISIBLE_DEVICES",
    "GRUBRICS_RUNS",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "WANDB_MODE",
)
# Not the whole checkout: it may hold .env, runs and checkpoints.
_SOURCES = (
    *("engine", "grubrics_tui", "configs", "pyproject.toml", "setup.py", "MANIFEST.in"),
    *("README.md", "LICENSE"),
)
_DOCKER = f"""\
docker build -t {{image}} -f - {{folder}} <<'END'
FROM {_BASE}
RUN {_SYSTEM}
{{files}}
RUN {{install}}
END"""
_APPTAINER = f"""\
cat > {{definition}} <<'END'
Bootstrap: docker
From: {_BASE}
%files
{{files}}
%post
    {_SYSTEM}
    {{install}}
END
apptainer build {{image}} {{definition}}"""
_CHECKOUT = Path(__file__).resolve().parents[2]


class Mount(Struct, frozen=True, rename={"is_writable": "writable"}):
    """A folder or file of this host, at the same path in the container."""

    path: Path
    is_writable: bool


@dataclass(frozen=True)
class Container:
    """How to make the image, what must exist before, and how to run it."""

    image: str
    build: str | None
    mounts: tuple[Mount, ...]
    missing: tuple[Path, ...]
    """Folders to make first: Docker would make them as root."""
    argv: tuple[str, ...]


def plan_container(
    config: Config,
    words: Sequence[str],
    runs: Path,
    env: Mapping[str, str],
    *,
    engine: Engine = "docker",
    image: str | None = None,
    shm: str = "16g",
) -> Container:
    """Return the command line for ``grubrics-tui launch WORDS --wait`` in a container.

    ``image`` replaces the one that is built from this project's exact pins. ``shm`` is the size of
    the shared memory, where Ray and NCCL keep data; Apptainer uses the host's.
    """
    mounts = tuple(_mounts(config, runs, env))
    on_gpu = config.get("grubrics.device") == "cuda"
    # The image's name says which versions are in it.
    pins = [pin.replace("==", "") for pin in GPU_SET[:2]] if on_gpu else ["cpu"]
    version = "-".join([f"verl{verl_version()}", *pins])
    built = f"grubrics-tui:{version}" if engine == "docker" else f"grubrics-tui-{version}.sif"
    names = [name for name in (*known_variables(), *_PASSED) if env.get(name)]
    make = _docker if engine == "docker" else _apptainer
    options = make(mounts, names, on_gpu, shm)
    argv = (*options, image or built, "grubrics-tui", "launch", *words, "--wait")
    build = None if image else _build(engine, built, on_gpu)
    missing = tuple(mount.path for mount in mounts if not mount.path.exists())
    return Container(image or built, build, mounts, missing, argv)


def _mounts(config: Config, runs: Path, env: Mapping[str, str]) -> Iterator[Mount]:
    """The project, and what the run reads and writes outside of it."""
    project = Path.cwd()
    home = Path(env.get("HOME") or "~").expanduser()
    state = Path(env.get("XDG_STATE_HOME") or home / ".local/state") / "grubrics-tui"
    written = [runs.absolute(), Path(checkpoint_dir(config)).expanduser().absolute(), state]
    if is_hub_name(model_name(config)):
        written.append(hub.hub_home(env).absolute())
    yield Mount(project, is_writable=True)
    for path in dict.fromkeys(written):
        if not path.is_relative_to(project):
            yield Mount(path, is_writable=True)
    values = config.values.values()
    items = (item for value in values for item in (value if isinstance(value, list) else [value]))
    absolute = (str(item) for item in items if str(item).startswith(("/", "~/")))
    for path in dict.fromkeys(Path(item).expanduser() for item in absolute):
        if path.exists() and not any(path.is_relative_to(one) for one in (project, *written)):
            yield Mount(path, is_writable=False)


def _docker(mounts: Sequence[Mount], names: Sequence[str], on_gpu: bool, shm: str) -> Iterator[str]:
    yield from ("docker", "run", "--rm", "--init")
    if on_gpu:
        yield "--gpus=all"
    yield f"--shm-size={shm}"
    yield f"--user={os.getuid()}:{os.getgid()}"
    for mount in mounts:
        mode = "" if mount.is_writable else ",readonly"
        yield f"--mount=type=bind,source={mount.path},target={mount.path}{mode}"
    yield f"--workdir={Path.cwd()}"
    yield f"--env=HOME={Path.home()}"
    yield from (f"--env={name}" for name in names)


def _apptainer(
    mounts: Sequence[Mount], names: Sequence[str], on_gpu: bool, shm: str
) -> Iterator[str]:
    """The variables of the shell reach the container by themselves."""
    yield from ("apptainer", "exec")
    if on_gpu:
        yield "--nv"
    for mount in mounts:
        yield f"--bind={mount.path}:{mount.path}:{'rw' if mount.is_writable else 'ro'}"
    yield f"--cwd={Path.cwd()}"


def _build(engine: Engine, image: str, on_gpu: bool) -> str:
    """The commands that make the image from the exact pins in a checkout of this project."""
    constraints, extra = (
        f"constraints-{'gpu' if on_gpu else 'cpu'}.txt",
        "gpu" if on_gpu else "train",
    )
    is_checkout = (_CHECKOUT / constraints).is_file()
    folder = str(_CHECKOUT) if is_checkout else "CHECKOUT_OF_GRUBRICS_TUI"
    install = f"cd /src && pip install --no-cache-dir -c {constraints} '.[{extra}]'"
    files = (*_SOURCES, constraints)
    if engine == "docker":
        return _DOCKER.format(
            image=image,
            folder=shlex.quote(folder),
            files="\n".join(f"COPY {name} /src/{name}" for name in files),
            install=install,
        )
    return _APPTAINER.format(
        image=image,
        definition=image.replace(".sif", ".def"),
        files="\n".join(f"    {folder}/{name} /src/{name}" for name in files),
        install=install,
    )


def format_container(container: Container) -> str:
    """Return the commands as a script for a shell, one option per line."""
    parts = [container.build] if container.build else []
    if container.missing:
        parts.append(format_command(["mkdir", "-p", *map(str, container.missing)]))
    first = next(index for index, word in enumerate(container.argv) if word.startswith("-"))
    last = container.argv.index(container.image)
    head, options = container.argv[:first], container.argv[first:last]
    rows = [format_command(head), *(format_command([word]) for word in options)]
    rows.append(format_command(container.argv[last:]))
    return "\n".join([*parts, " \\\n    ".join(rows)])
