"""The event schema for other programs: as JSON Schema, and as the tables of `docs/events.md`."""

from __future__ import annotations

import inspect
from typing import Any

from dtrdiag.events.fields import FIELDS, INFINITIES, Field, Values
from dtrdiag.events.records import EVENT_TYPES, SCHEMA, SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME

_JSON_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def json_schema() -> dict[str, Any]:
    """JSON Schema (Draft 2020-12) of one line of a log of exactly this version.

    `event` says which of the definitions applies. Fields that are not named are allowed, since
    newer minor versions add some.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{SCHEMA.replace('/', ':')}",
        "title": f"Event of a {SCHEMA} log",
        "description": "One line of an event log of a run under Dynamic Tensor Rematerialization.",
        "type": "object",
        "required": ["event"],
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in EVENT_TYPES],
        "$defs": {kind: _definition(kind) for kind in EVENT_TYPES},
    }


def schema_file_name() -> str:
    """Name of the committed copy beside this module."""
    return f"schema-{SCHEMA_MAJOR}.{SCHEMA_MINOR}.json"


def markdown_tables() -> dict[str, str]:
    """The table of fields of every kind of event, as Markdown, without a final newline."""
    return {kind: _table(kind) for kind in EVENT_TYPES}


def _definition(kind: str) -> dict[str, Any]:
    properties: dict[str, Any] = {"event": {"const": kind, "description": "kind of event"}}
    properties.update((field.name, _property(kind, field)) for field in FIELDS[kind])
    return {
        "description": inspect.cleandoc(EVENT_TYPES[kind].__doc__ or ""),
        "type": "object",
        "properties": properties,
        "required": ["event", *(field.name for field in FIELDS[kind] if field.required)],
        "additionalProperties": True,
    }


def _property(kind: str, field: Field) -> dict[str, Any]:
    if (kind, field.name) == ("run", "schema"):
        # What a minor version adds may be left out, so logs of the earlier ones are valid too.
        versions = [f"{SCHEMA_NAME}/{SCHEMA_MAJOR}.{minor}" for minor in range(SCHEMA_MINOR + 1)]
        schema: dict[str, Any] = {"enum": versions}
    elif field.value is not None:
        schema = _value(field.value)
    elif len(field.items) == 1:
        schema = {"type": "array", "items": _value(field.items[0])}
    else:
        row = {
            "type": "array",
            "prefixItems": [_value(values) for values in field.items],
            "items": False,
            "minItems": len(field.items),
        }
        schema = {"type": "array", "items": row}
    if field.choices is not None:
        schema["enum"] = list(field.choices)
    return {**schema, "description": field.doc}


def _value(values: Values) -> dict[str, Any]:
    name = _JSON_TYPES[values.base]
    schema: dict[str, Any] = {"type": [name, "null"] if values.nullable else name}
    if values.infinite:
        return {"anyOf": [schema, {"enum": list(INFINITIES)}]}
    return schema


def _table(kind: str) -> str:
    rows = [f"| `event` | string | `{kind}` |"]
    for field in FIELDS[kind]:
        doc = field.doc.replace("|", "\\|")
        if field.choices is not None:
            doc += f": {', '.join(f'`{choice}`' for choice in field.choices)}"
        if not field.required:
            doc += "; may be left out"
        rows.append(f"| `{field.name}` | {field.type_text} | {doc} |")
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])
