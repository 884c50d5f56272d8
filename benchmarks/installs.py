"""What the base install changes in environments that already train: nothing, if all is well.

    python benchmarks/installs.py FOLDER [NAME ...]

Makes each environment with pip in FOLDER (tens of GB, an hour or more the first time; afterwards it
is restored to the versions in its ``prepared.txt``), installs this checkout's wheel without extras,
and prints which versions moved and which packages were added.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "grubrics-tui"
ENVIRONMENTS = {
    "verl 0.6": ("verl==0.6.0", "vllm==0.10.2"),
    "TRL 0.23": ("trl==0.23.1", "peft", "vllm==0.10.2"),
    "TRL, newest": ("trl", "peft"),
    "LLaMA-Factory 0.9.3": ("llamafactory==0.9.3",),
    "LLaMA-Factory, newest": ("llamafactory",),
}


def pip(python: Path, *arguments: str) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def prepare(folder: Path, requirements: tuple[str, ...]) -> Path:
    """The interpreter of an environment with the packages that ``requirements`` once chose."""
    python, prepared = folder / "bin" / "python", folder / "prepared.txt"
    if not prepared.exists():
        venv.create(folder, with_pip=True)
        pip(python, "install", "-q", *requirements)
        prepared.write_text(pip(python, "list", "--format", "freeze"))
        return python
    wanted, present = parse_versions(prepared.read_text()), read_versions(python)
    if added := sorted(present.keys() - wanted.keys()):
        pip(python, "uninstall", "-q", "-y", *added)
    moved = [
        f"{name}=={version}" for name, version in wanted.items() if present.get(name) != version
    ]
    if moved:
        pip(python, "install", "-q", "--no-deps", *moved)
    return python


def read_versions(python: Path) -> dict[str, str]:
    return parse_versions(pip(python, "list", "--format", "freeze"))


def parse_versions(listed: str) -> dict[str, str]:
    return dict(line.split("==", 1) for line in listed.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ENVIRONMENTS)} (default: all)")
    given = parser.parse_args()
    pip(Path(sys.executable), "wheel", "-q", "--no-deps", "-w", str(given.folder), str(ROOT))
    wheel = next(given.folder.glob("grubrics_tui-*.whl"))
    print("| environment | packages | moved | added |\n|---|---|---|---|")
    for name in given.names or ENVIRONMENTS:
        folder = given.folder / name.replace(" ", "-").replace(",", "")
        python = prepare(folder, ENVIRONMENTS[name])
        before = read_versions(python)
        pip(python, "install", "-q", str(wheel))
        after = read_versions(python)
        moved = [f"{p} {v} -> {after.get(p)}" for p, v in before.items() if after.get(p) != v]
        added = sorted(after.keys() - before.keys() - {PROGRAM})
        print(f"| {name} | {len(before)} | {'; '.join(moved) or 'none'} | {', '.join(added)} |")


if __name__ == "__main__":
    main()
