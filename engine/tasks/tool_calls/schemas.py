"""JSON Schema of answers and of the arguments of tools."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from engine.tasks.tool_calls.calls import parse_json

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_TYPES = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
}
"""JSON's types by the names that data sets of tool calls give them."""


def find_problem(schema: str, value: Any) -> str | None:
    """Why a value does not satisfy a schema (draft 2020-12, or that of its ``$schema``), in a line;
    None if it does. ValueError for text that is no schema, and for a reference to another one."""
    from referencing.exceptions import Unresolvable

    try:
        error = next(_validator(schema).iter_errors(value), None)
    except Unresolvable as problem:
        raise ValueError(f"$ref {problem.ref!r} is not in the schema") from problem
    except (ArithmeticError, RecursionError) as problem:
        # multipleOf of huge numbers; a schema that refers to itself.
        return type(problem).__name__
    return None if error is None else f"{error.json_path[:80]}: {error.message[:120]}"


def require_schema(schema: str) -> None:
    """ValueError, with the reason, for text that is no schema."""
    _validator(schema)


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validator:
    # Half of the time of `prepare --help` would go into these imports.
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    parsed = parse_json(schema)
    if not isinstance(parsed, bool | dict):
        raise ValueError("a schema is an object")
    kind = validator_for(parsed, default=Draft202012Validator)
    try:
        kind.check_schema(parsed)
    except SchemaError as error:
        raise ValueError(f"{error.json_path}: {error.message[:120]}") from error
    # Without a registry of its own, a $ref to a URL would be downloaded.
    registry: Any = Registry()
    return kind(parsed, registry=registry)


def schema_of_parameters(parameters: Any) -> Mapping[str, Any]:
    """The schema of a tool's arguments.

    Beside JSON Schema, data sets write ``{"city": {"type": "str, optional"}}``: a parameter by its
    name, with a type of Python. A type that is unknown there restricts nothing.
    """
    if not parameters:
        return {"type": "object"}
    if not isinstance(parameters, Mapping):
        raise ValueError("the parameters are no object")
    if "properties" in parameters or "$ref" in parameters:
        return parameters
    properties, required = {}, []
    for name, parameter in parameters.items():
        fields = parameter if isinstance(parameter, Mapping) else {"type": parameter}
        words = str(fields.get("type", "")).lower().replace("[", ",").split(",")
        kind = _TYPES.get(words[0].strip())
        properties[name] = {"type": kind} if kind else {}
        if "optional" not in "".join(words[1:]) and "default" not in fields:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}
