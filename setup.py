"""Package ``configs/`` and ``constraints-gpu.txt`` in ``engine``; all else is in pyproject.toml.

An editable install copies nothing: there they are read from the checkout.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithConfigs(build_py):
    """Build the packages, and copy the configs and the tested GPU set into ``engine``."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "engine" / "configs"
        self.mkpath(str(target))
        for config in sorted(Path("configs").glob("*.yaml")):
            self.copy_file(str(config), str(target / config.name))
        self.copy_file("constraints-gpu.txt", str(target.parent / "constraints-gpu.txt"))


setup(cmdclass={"build_py": BuildWithConfigs})
