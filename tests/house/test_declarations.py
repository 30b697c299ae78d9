"""What Python knows of the native library is what the compiler makes of its headers."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.tree import ROOT, files
from tracekit._native.declarations import ffi
from tracekit._native.library import dtype_of, library, plain, struct

HEADERS = ROOT / "replayer"
EXPORT = re.compile(r"^TK_EXPORT [^;(]*?(\w+)\(", re.MULTILINE)


def exported() -> set[str]:
    return {
        name for path in files("*.h", under="replayer") for name in EXPORT.findall(path.read_text())
    }


def is_opaque(kind: str) -> bool:
    try:
        ffi.sizeof(kind)
    except ffi.error:
        return True
    return False


def test_every_exported_function_is_declared_and_there() -> None:
    assert {name for name in dir(library()) if name.startswith("tk_")} == exported()
    assert all(getattr(library(), name) for name in exported())


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_structures_lie_in_memory_as_the_compiler_has_them(tmp_path: Path) -> None:
    # GIVEN size and places of all structures' fields as numpy gets them
    lines = ['#include "tracekit.h"', "#include <stddef.h>"]
    _, names, _ = ffi.list_types()
    for kind in (f"struct {name}" for name in names):
        if is_opaque(kind):
            continue
        lines.append(f'_Static_assert(sizeof({kind}) == {ffi.sizeof(kind)}, "{kind}");')
        for field, found in ffi.typeof(kind).fields:
            place = f"offsetof({kind}, {field}) == {found.offset}"
            lines.append(f'_Static_assert({place}, "{kind}.{field}");')
    source = tmp_path / "layout.c"
    source.write_text("\n".join(lines) + "\n")
    # THEN the compiler agrees
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", f"-I{HEADERS}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(lines) > 200


def test_a_structure_of_numpy_is_that_of_c() -> None:
    access = dtype_of("struct page_access")
    assert access.names == ("key", "count", "is_write", "role", "unused")
    assert [str(access[name]) for name in access.names] == [
        *("int64", "uint32", "uint8", "uint8", "uint16")
    ]
    assert access.itemsize == 16


def test_what_goes_into_a_structure_comes_out_of_it() -> None:
    cost = {"latency_ps": (1, 2), "sequential_ps": (3, 4), "sector_ps": (5, 6), "fua_ps": 7}
    disk = {"track_ps": 0.5, "settle_ps": (8, 9)}
    found = plain(
        struct("tk_simulation_prices", base=cost, disk=disk, flush_ps=((10, 11), (12, 13)))
    )
    assert found["base"] == cost
    assert found["nvm"]["latency_ps"] == (0, 0)
    assert (found["disk"]["track_ps"], found["disk"]["settle_ps"]) == (0.5, (8, 9))
    assert found["flush_ps"] == ((10, 11), (12, 13))
