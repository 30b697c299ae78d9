"""`capture --files` of programs that change metadata and clone, against counts of `strace -c`."""

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.capture.file_captures import NEEDS_STRACE, capture
from tests.capture.strace_text import rows_of
from tests.replay.disk import call, image, mounted
from tracekit.capture.strace import FOLLOWED

pytestmark = NEEDS_STRACE
OPERATION_OF = {
    "utime": "utimens",
    "utimes": "utimens",
    "futimesat": "utimens",
    "utimensat": "utimens",
    "symlinkat": "symlink",
}


def operation_of(name: str) -> str | None:
    """Return the operation of a call on metadata."""
    found = re.fullmatch(r"[lf]?(chmod|chown|(set|get|list|remove)xattr|symlink)", name)
    at = re.fullmatch(r"f(chmod|chown)at2?", name)
    return (found or at or [None, OPERATION_OF.get(name)])[1]


METADATA = {name: operation for name in FOLLOWED if (operation := operation_of(name))}


def counted(work: Path, *command: str) -> Counter[str]:
    """Return how many calls strace itself counts, by operation."""
    names = ",".join(f"?{name}" for name in METADATA)
    words = ["strace", "-f", "-c", "-U", "name,calls", "-e", f"trace={names}", "-o", "count"]
    subprocess.run([*words, *command], cwd=work, check=True, capture_output=True)
    file = work / "count"
    counts = Counter[str]()
    for name, calls in re.findall(r"^(\w+) +(\d+)$", file.read_text(), re.MULTILINE):
        if name in METADATA:
            counts[METADATA[name]] += int(calls)
    file.unlink()
    return counts


def captured(work: Path, *command: str, source: str) -> tuple[Counter[str], Path]:
    """Return how many rows a capture has, by operation."""
    trace, _ = capture(work, *command, source=source)
    operations = set(METADATA.values())
    rows = [row["operation"] for row in rows_of(trace)]
    return Counter(name for name in rows if name in operations), trace


TREE = """
set -e
mkdir -p in/sub out
for n in 1 2 3 4 5 6 7 8 9 10; do echo $n > in/sub/f$n; done
ln -s f1 in/sub/l
python3 -c "import os; [os.setxattr(f'in/sub/f{n}', 'user.n', b'12345') for n in (1, 2)]"
tar --xattrs -cf a.tar in
"""
PROGRAMS = {
    "tar": "tar --xattrs --xattrs-include=user.* -xpf a.tar -C out",
    "chmod": "chmod -R go-w in",
    "chown": "chown -hR 0:0 in",
    "touch": "touch in/sub/f1 in/sub/f2 -d 2001-01-01",
    "cp": "cp -a in out/copy",
    "ls": "ls -lR in",
    "python": "python3 -c \"import os; print(os.listxattr('in/sub/f1'),"
    " os.removexattr('in/sub/f1', 'user.n'))\"",
}
EXPECTED = {
    "tar": {"chmod", "chown", "utimens", "setxattr", "symlink"},
    "chmod": {"chmod"},
    "chown": {"chown"},
    "touch": {"utimens"},
    "cp": {"chown", "utimens", "setxattr", "symlink"},
    "ls": {"getxattr"},
    "python": {"listxattr", "removexattr"},
}


@pytest.mark.root
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_as_many_as_strace_counts(work: Path, source: str, name: str) -> None:
    # GIVEN a tree with attributes and a link, and a program that strace counts in a copy of it
    if not shutil.which("tar"):
        pytest.skip("needs tar")
    copy = work.parent / "copy"
    copy.mkdir()
    for place in (work, copy):
        call("sh", "-c", f"cd {place}; {TREE}")
    command = ("sh", "-c", f"exec {PROGRAMS[name]}")
    expected = counted(copy, *command)
    # WHEN it is captured
    found, trace = captured(work, *command, source=source)
    # THEN each call is a row, the ones that this program is for among them
    assert found == expected
    assert EXPECTED[name] - set(found) == set()
    info = json.loads((trace / "trace.json").read_text())
    assert info["counts"]["left_out"] == {}


@pytest.mark.root
def test_a_clone_of_a_file_system_is_a_copy_and_is_reported(work: Path, source: str) -> None:
    # GIVEN a file system that shares blocks between files
    if not shutil.which("mkfs.xfs"):
        pytest.skip("needs mkfs.xfs")
    disk = image(work.parent / "image", mib=320)
    call("mkfs.xfs", "-q", "-m", "reflink=1", disk)
    with mounted(disk, work / "mount", "-o", "loop") as there:
        (there / "a").write_bytes(bytes(1_000_000))
        # WHEN cp clones a file, and nothing else could copy it
        words = ("cp", "--reflink=always", str(there / "a"), str(there / "b"))
        trace, _ = capture(work, *words, options=("--below", str(there)), source=source)
    # THEN it has the rows of a copy, and the trace says that no byte was moved
    rows = [
        (row["operation"], Path(row["path"]).name, row["offset_bytes"], row["done_bytes"])
        for row in rows_of(trace)
        if row["operation"] in ("read", "write")
    ]
    assert rows == [("read", "a", 0, 1_000_000), ("write", "b", 0, 1_000_000)]
    info = json.loads((trace / "trace.json").read_text())
    assert info["counts"]["cloned"] == 1
    assert "cloned_ranges" in [one["code"] for one in info["warnings"]]
