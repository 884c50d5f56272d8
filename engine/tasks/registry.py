"""Tasks by name.

A package adds one through an entry point of the group ``grubrics.tasks``:

    [project.entry-points."grubrics.tasks"]
    riddles = "my_package.riddles:RIDDLES"
"""

from __future__ import annotations

from engine.base.errors import UsageError, unknown_name
from engine.base.plugins import load
from engine.tasks.code import CODE
from engine.tasks.puzzles import PUZZLES
from engine.tasks.questions import QUESTIONS
from engine.tasks.reading import READING
from engine.tasks.rows import ROWS
from engine.tasks.task import RecordFormat, Task, Values
from engine.tasks.tool_calls import JSON, TOOL_CALLS
from engine.tasks.workflows import WORKFLOWS

GROUP = "grubrics.tasks"
BUILT_IN: tuple[Task, ...] = (QUESTIONS, READING, TOOL_CALLS, JSON, CODE, PUZZLES, WORKFLOWS)


def tasks() -> dict[str, Task]:
    """The built-in tasks and those of installed packages, by name. The first of a name wins."""
    named: dict[str, Task] = {}
    for task in (*BUILT_IN, *load(GROUP, Task).objects):
        named.setdefault(task.name, task)
    return named


def find_task(name: str) -> Task:
    """The task of a name. UsageError for an unknown one, with the nearest."""
    known = tasks()
    if name == ROWS.name and name not in known:
        raise UsageError(
            f"{name} are scored by your own reward function, not by a task: name FILE.py:FUNCTION"
        )
    if name not in known:
        raise unknown_name("task", name, known)
    return known[name]


def fitting_tasks(record: Values) -> list[str]:
    """The tasks that can read a record by the usual names of its columns."""
    return [name for name, task in tasks().items() if _reads(task, record)]


def _reads(task: Task, record: Values) -> bool:
    if task.make_records is not None:
        return False
    try:
        columns = task.match_columns(record, {})
        task.read({name: record.get(columns.get(name, "")) for name in task.columns})
    except (UsageError, ValueError, TypeError, LookupError, AttributeError):
        return False  # A package's task may raise more than RecordError for another's record.
    return True


def find_format(name: str) -> RecordFormat:
    """The task of a name, or the format of rows for a reward function. UsageError as before."""
    return ROWS if name == ROWS.name and name not in tasks() else find_task(name)
