"""Writes a work profile as a person would, in the order that it was made in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

WIDTH = 96


def toml(profile: Mapping[str, Any], comment: str) -> str:
    """Return the text: plain keys first, then the tables of `stream` with their own tables."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += _plain({key: value for key, value in profile.items() if key != "stream"})
    for stream in profile["stream"]:
        lines += ["", "[[stream]]"]
        nested = ("arrival", "phase", "request")
        lines += _plain({key: value for key, value in stream.items() if key not in nested})
        lines += ["[stream.arrival]", *_plain(stream["arrival"])]
        for name in ("phase", "request"):
            for table in stream.get(name, []):
                lines += ["", f"[[stream.{name}]]", *_plain(table)]
    return "\n".join(lines) + "\n"


def _plain(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return _listed([_value(one) for one in value])
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    # A text of TOML is written as one of JSON.
    return json.dumps(value, ensure_ascii=True)


def _listed(values: list[str]) -> str:
    """Return a list, in lines of its own where it is long."""
    if sum(map(len, values)) + 2 * len(values) < WIDTH - 20:
        return f"[{', '.join(values)}]"
    lines: list[str] = []
    line = ""
    for value in values:
        if line and len(line) + len(value) > WIDTH:
            lines.append(line.rstrip())
            line = ""
        line += f"{value}, "
    return "[\n  " + "\n  ".join([*lines, line.rstrip()]) + "\n]"
