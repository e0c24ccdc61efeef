"""Judges a JSON document by a JSON Schema, as far as ours need it, and says where in the text a value stands.

Stricter than the standard in one point: 1.0 is no integer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from json.decoder import JSONDecoder
from typing import Any

__all__ = ["Problem", "errors", "locate", "path_text"]

#: A place in a document (keys and positions), and what is wrong there.
Problem = tuple[tuple[str | int, ...], str]

_TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}
_JUDGED = {"type", "required", "additionalProperties", "properties", "const", "enum", "minimum", "maximum", "items"}
_JUDGED |= {"minItems", "maxItems", "minLength", "uniqueItems", "anyOf", "$ref"}
_KEYWORDS = _JUDGED | {"$schema", "$defs", "title", "description"}


def errors(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None) -> Iterator[Problem]:
    """What in ``value`` does not follow ``schema``, outermost first."""
    root = schema if root is None else root
    assert schema.keys() <= _KEYWORDS, schema.keys() - _KEYWORDS
    schema = _resolved(schema, root)
    if "anyOf" in schema:
        tried = [list(errors(value, option, root)) for option in schema["anyOf"]]
        if all(tried):  # said of the option that is meant: one of the type that the value has, if there is any
            meant = [_is_of_type(value, _resolved(option, root)) for option in schema["anyOf"]]
            yield from tried[meant.index(True) if True in meant else 0]
        return
    if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
        yield (), f"this is {_shown(schema['const'])}; got {_shown(value)}"
    if "enum" in schema and value not in schema["enum"]:
        yield (), f"this is one of {', '.join(map(str, schema['enum']))}; got {_shown(value)}"
    if "type" in schema:
        if not _is_of_type(value, schema):
            names = _type_names(schema)
            yield (), f"this is {' or '.join(_a(n) for n in names)}; got {_shown(value)}"
            return
    if isinstance(value, int):
        yield from _limits(value, schema, "minimum", "maximum", "")
    elif isinstance(value, str):
        yield from _limits(len(value), schema, "minLength", "", " characters")
    elif isinstance(value, list):
        yield from _array(value, schema, root)
    elif isinstance(value, dict):
        yield from _object(value, schema, root)


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference is to, or the schema itself."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return schema


def _type_names(schema: dict[str, Any]) -> list[str]:
    return [schema["type"]] if isinstance(schema["type"], str) else schema["type"]


def _is_of_type(value: Any, schema: dict[str, Any]) -> bool:
    names = _type_names(schema)
    return any(isinstance(value, _TYPES[n]) and not (n == "integer" and isinstance(value, bool)) for n in names)


def _limits(n: int, schema: dict[str, Any], low: str, high: str, unit: str) -> Iterator[Problem]:
    if n < schema.get(low, n):
        yield (), f"this is at least {schema[low]}{unit}; got {n}"
    if n > schema.get(high, n):
        yield (), f"this is at most {schema[high]}{unit}; got {n}"


def _array(value: list[Any], schema: dict[str, Any], root: dict[str, Any]) -> Iterator[Problem]:
    yield from _limits(len(value), schema, "minItems", "maxItems", " items")
    if schema.get("uniqueItems"):
        texts = [json.dumps(item, sort_keys=True) for item in value]
        yield from (((i,), "this stands twice") for i, text in enumerate(texts) if text in texts[:i])
    if "items" in schema:
        for i, item in enumerate(value):
            for path, text in errors(item, schema["items"], root):
                yield (i, *path), text


def _object(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any]) -> Iterator[Problem]:
    for name in schema.get("required", ()):
        if name not in value:
            yield (), f"{name!r} is missing"
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    for name, item in value.items():
        rule = known.get(name, others)
        if rule is False:
            yield (name,), f"there is no {name!r} here; what may stand here is {', '.join(known)}"
            continue
        for path, text in errors(item, rule, root):
            yield (name, *path), text


def _a(name: str) -> str:
    return "null" if name == "null" else f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def path_text(path: Sequence[str | int]) -> str:
    """``kernels[2].asm``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the document"


def locate(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    """Line (from 1) and column (from 0) of the value at ``path`` in a valid JSON document."""
    decoder, at = JSONDecoder(), _blank(text, 0)
    for part in path:
        at = _blank(text, at + 1)  # behind the bracket
        position = 0
        while text[at] not in "]}":
            here: str | int = position
            if isinstance(part, str):
                here, at = decoder.raw_decode(text, at)
                at = _blank(text, _blank(text, at) + 1)
            if here == part:
                break
            at = _blank(text, decoder.raw_decode(text, at)[1])
            at = _blank(text, at + 1) if text[at] == "," else at
            position += 1
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at) - 1


def _blank(text: str, at: int) -> int:
    """The next place that is not white space."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
