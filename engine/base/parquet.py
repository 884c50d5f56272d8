"""pyarrow, imported at its first use: that takes 60 ms, and an installed pyarrow may be broken.

Use ``from engine.base.parquet import pa, pq`` instead of ``import pyarrow as pa``. The first use of
an attribute raises PackageError if the import fails: the package is absent, a shared library is
missing, or its wheel was built for another numpy.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from engine.base.errors import PackageError

__all__ = ["import_failure", "pa", "pc", "pq"]

_imports: dict[str, ModuleType | PackageError] = {}
"""The result of each import that was tried. A second try would find half of the package loaded."""


class _LazyModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if self._name not in _imports:
            try:
                _imports[self._name] = import_module(self._name)
            except Exception as error:  # A wheel for another numpy raises nearly anything.
                _imports[self._name] = PackageError("pyarrow", error)
        module = _imports[self._name]
        if isinstance(module, PackageError):
            raise module.with_traceback(None)
        return getattr(module, attribute)


def import_failure() -> PackageError | None:
    """Return the error if pyarrow was needed and could not be imported."""
    return next((error for error in _imports.values() if isinstance(error, PackageError)), None)


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa = _LazyModule("pyarrow")
    pc = _LazyModule("pyarrow.compute")
    pq = _LazyModule("pyarrow.parquet")
