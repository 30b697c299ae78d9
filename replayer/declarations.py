"""Writes what Python knows of the shared library, from its C headers: a module of cffi's.

    python declarations.py COMPILER HEADER OUTPUT

Kept of the preprocessed header are the functions marked TK_EXPORT, the structures that these need,
enumerations, and macros that are whole numbers. Everything else is private to the library.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cffi import FFI

RECORDS = {"results_record"}  # of files, that no function takes
# TK_EXPORT is the one attribute of the headers.
FLAGS = ["-E", "-dD", "-D_GNU_SOURCE", "-D__attribute__(ignored)=extern"]
LIMITS = {"INT64_MIN": "(-9223372036854775807 - 1)"}
MARKER = re.compile(r'# \d+ "([^"]*)"')
MACRO = re.compile(r"#define (\w+) ([\w\s()*+<-]+)")
NAME = re.compile(r"\b[A-Za-z_]\w*")
ENUMERATION = re.compile(r"enum (\w+ )?{")
STRUCTURE = re.compile(r"struct (\w+) {")
TAG = re.compile(r"\bstruct (\w+)")


def own_lines(compiler: str, header: Path) -> Iterator[str]:
    """Yield the lines of the preprocessed header that come from files beside and below it."""
    folder = header.resolve().parent
    command = [compiler, *FLAGS, f"-I{folder}", str(header.resolve())]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    is_own = False
    for line in text.splitlines():
        if marker := MARKER.match(line):
            is_own = folder in Path(marker[1]).parents
        elif is_own and line:
            yield line


def pieces(lines: Iterator[str]) -> Iterator[str]:
    """Yield macros, and what ends with a semicolon or is the body of a function."""
    piece = ""
    for line in lines:
        if line.startswith("#"):
            yield line
            continue
        piece += line + "\n"
        if piece.count("{") == piece.count("}") and line.rstrip().endswith((";", "}")):
            yield piece
            piece = ""


def public(lines: Iterator[str]) -> str:
    """Return the declarations that callers of the library need, in their order."""
    numbers: set[str] = set()
    structs: dict[str, str] = {}
    kept: list[str] = []
    functions: list[str] = []
    for piece in pieces(lines):
        if macro := MACRO.fullmatch(piece):
            name, value = macro[1], LIMITS.get(macro[2].strip(), macro[2])
            if numbers.issuperset(NAME.findall(value)):
                numbers.add(name)
                kept.append(f"enum {{ {name} = {value} }};")
        elif ENUMERATION.match(piece):
            numbers.update(NAME.findall(piece.partition("{")[2]))
            kept.append(piece)
        elif structure := STRUCTURE.match(piece):
            structs[structure[1]] = piece
        elif piece.startswith("extern") and piece.endswith(");\n"):
            functions.append(piece)
    needed: set[str] = set()
    found = RECORDS.union(TAG.findall(" ".join(functions)))
    while found:
        needed |= found
        found = set(TAG.findall(" ".join(structs.get(name, "") for name in found))) - needed
    kept += [text for name, text in structs.items() if name in needed]
    return "\n".join([*kept, *functions])


def main(compiler: str, header: str, output: str) -> None:
    """Write the module."""
    ffi = FFI()
    ffi.cdef(public(own_lines(compiler, Path(header))))
    ffi.set_source("declarations", None)
    ffi.emit_python_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
