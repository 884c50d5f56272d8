"""Records that a user's own function makes, from a seed and an index."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from engine.base.errors import UsageError
from engine.base.files import fingerprints
from engine.base.records import Record
from engine.reward.own.files import (
    code_files,
    hidden_libraries,
    input_files,
    libraries_hidden_by,
)
from engine.reward.own.function import RewardFunction
from engine.reward.own.loading import RECORD, Source
from engine.reward.own.processes import RewardCallError, RewardProcesses, RewardTimeoutError
from engine.run.trust import files_objection
from engine.tasks.task import RecordError

_NAME = re.compile(r"(?P<file>.+\.py):(?P<function>[^\W\d]\w*)(?::(?P<count>[1-9]\d*))?")
_COUNT = 500
_LIMIT_S = 60.0
_COMPARED = 9
"""Records that are made in a second process, too."""


@dataclass(frozen=True)
class OwnRecords:
    """``FILE.py:FUNCTION:COUNT``: what ``FUNCTION(seed, index)`` returns for the indices below
    ``COUNT``."""

    file: Path
    function: str
    count: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for the name of another source. UsageError for a file that does not exist, and for a
        file of Python without a function."""
        file = Path(text.partition(".py:")[0] + ".py" if ".py:" in text else text)
        if file.suffix != ".py":
            return None
        match = _NAME.fullmatch(text)
        if match is None:
            raise UsageError(f"{text}: name the function that makes records: {file}:FUNCTION:COUNT")
        if not file.is_file():
            raise UsageError(f"{file} does not exist")
        return cls(file, match["function"], int(match["count"] or _COUNT))

    def fingerprints(self) -> dict[str, str]:
        """Content hashes by path: of the file, of what it imports from its folder, and of the files
        that these name."""
        return fingerprints([*code_files(self._named), *input_files(self._named)])

    def make(self, seed: int) -> Iterator[tuple[int, Record | RecordError]]:
        """The records by index, or why there is none. The function runs in processes of its own.

        UsageError for a function that cannot be loaded or takes too long, for one that makes
        another record of the same seed and index in another process, and for code that another
        user could have written.
        """
        self._require_own_code()
        with _maker(self, hash_seed=1) as make:
            # Backwards: a record must not follow from those that were made before it.
            compared = {index: make(seed, index) for index in reversed(self._compared())}
        with _maker(self, hash_seed=0) as make:
            for index in range(self.count):
                made = make(seed, index)
                if index in compared and repr(made) != repr(compared[index]):
                    raise UsageError(
                        f"{self.file}: {self.function}(seed={seed}, index={index}) makes another "
                        "record in another process. Draw from random.Random(f'{seed} {index}'), "
                        "not from random itself, hash(), sets, the time or earlier calls"
                    )
                yield index, made

    @property
    def _named(self) -> RewardFunction:
        return RewardFunction(str(self.file), self.function)

    def _require_own_code(self) -> None:
        code = code_files(self._named, everywhere=True)
        hiding = [*hidden_libraries(self._named), *libraries_hidden_by(Path())]
        case = files_objection(f"file '{self.file}'", self.file, [*code, *hiding])
        if case is not None:
            raise UsageError(f"{'; '.join(case.reasons)}; nothing was executed")

    def _compared(self) -> list[int]:
        last, parts = self.count - 1, _COMPARED - 1
        return sorted({round(part * last / parts) for part in range(parts + 1)})


@contextmanager
def _maker(records: OwnRecords, hash_seed: int) -> Iterator[Callable[[int, int], Any]]:
    """The function in a process with a seed of its own for the hashes of texts."""
    source = Source(
        file=str(records.file.absolute()),
        module=None,
        name=records.function,
        kwargs={},
        search=tuple(dict.fromkeys([str(Path.cwd()), *filter(None, sys.path)])),
        contract=RECORD,
    )
    env = {"PYTHONHASHSEED": str(hash_seed)}
    processes = RewardProcesses(source, _LIMIT_S, quiet=True, env=env)

    async def end() -> None:
        processes.end()

    with asyncio.Runner() as runner:

        def make(seed: int, index: int) -> Any:
            try:
                return runner.run(processes.score(seed=seed, index=index))
            except RewardTimeoutError as error:
                raise UsageError(f"index {index}: {error}") from error
            except RewardCallError as error:
                return RecordError(str(error))

        try:
            yield make
        finally:
            runner.run(end())
