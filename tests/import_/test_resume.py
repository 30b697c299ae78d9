"""Imports that are killed, and gone on with: the result is that of one that nobody killed."""

import gzip
import json
import os
import pickle
import random
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.import_.importer import Importer
from tracekit.errors import InputError, UsageError
from tracekit.formats import ORACLE_RECORD
from tracekit.readers import checkpoint, reading
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions

LINES = 20_000
KILLED = """
import os, signal, sys
from tracekit.readers import checkpoint, reading
reading.CHUNK_BYTES, reading.CHECKPOINT_BYTES = 8192, 40_000
last, is_early, write = int(sys.argv.pop(1)), sys.argv.pop(1) == "early", checkpoint.Mark.__call__
def killed(mark, table):
    global last
    last -= 1
    if last or not is_early:
        write(mark, table)
    if not last:
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint.Mark.__call__ = killed
from tracekit.cli import main
main()
"""
"""Small blocks; killed at a mark, when its state is written or, early, only what is before it."""
NEVER = 1 << 30


def text(count: int = LINES, *, seed: int = 11) -> bytes:
    """Return requests of a few volumes, somewhat out of order, with wrong lines and outliers."""
    pick = random.Random(seed)  # noqa: S311 - test data
    lines, now = list[str](), 128166372003061629
    for number in range(count):
        now += pick.randrange(20_000)
        host, volume = pick.choice(("usr", "hm", f"new{number // 4500}")), pick.randrange(3)
        place, late = pick.randrange(1 << 22) * 512, pick.choice((0, 0, 0, 30_000))
        op, size, response = pick.choice(("Read", "Write")), 4096, pick.randrange(90_000)
        lines.append(f"{now - late},{host},{volume},{op},{place},{size},{response}\n")
        if number % 999 == 500:
            lines.append("no request\n")
    return "".join(lines).encode()


def records() -> bytes:
    made = np.zeros(LINES, ORACLE_RECORD)
    made["time"], made["object"] = np.arange(LINES) // 50, np.arange(LINES) % 977
    made["size"], made["next"] = 4096, -1
    return made.tobytes()


def pieces(content: bytes) -> list[bytes]:
    """Return a text cut at lines, plain and packed, with an empty one, and an end within a line."""
    lines = content.splitlines(keepends=True)
    cuts = (0, 5_000, 12_000, 12_000, len(lines))
    first, *others = (b"".join(lines[at:end]) for at, end in pairwise(cuts))
    return [gzip.compress(first), *others[:-1], others[-1][:-9]]


CONTENTS: dict[str, list[bytes]] = {
    "text": [text()],
    "gzip": [gzip.compress(text())],
    "records": [records()],
    "pieces": pieces(text()),
    "sequence": [text(LINES // 2), gzip.compress(text(LINES // 2, seed=5))],
}


def command(last: int, sources: list[Path], output: Path, *more: str) -> int:
    """Import with small blocks in a process that is killed at a mark; return its status."""
    when = "early" if last % 2 else "late"
    words = [str(last), when, "import", *map(str, sources), "-o", str(output), *more]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def stored(folder: Path, kind: str) -> list[Path]:
    files = [folder / f"x.{number}" for number in range(len(CONTENTS[kind]))]
    for file, content in zip(files, CONTENTS[kind], strict=True):
        file.write_bytes(content)
    return files


def whole(folder: Path) -> tuple[Any, dict[str, Any]]:
    return pq.read_table(folder / "requests.parquet"), json.loads(
        (folder / "trace.json").read_text()
    )


def left(output: Path) -> list[Path]:
    return [
        path
        for path in output.parent.glob(f".{output.name}.tracekit-*")
        if (path / checkpoint.NAME).exists()
    ]


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_killed_import_is_gone_on_with(tmp_path: Path, kind: str) -> None:
    sources, join = stored(tmp_path, kind), ["--join", "sequence"] if kind == "sequence" else []
    assert command(NEVER, sources, tmp_path / "whole", *join) == 0
    # GIVEN an import that is killed at random places, again and again
    output, pick, kills = tmp_path / "made", random.Random(3), 0  # noqa: S311 - test data
    clocks = set[bool]()
    resume = list[str]()
    while command(pick.randrange(2, 6), sources, output, *join, *resume):
        kills += 1
        assert not output.exists()
        assert kills < 100
        resume = ["--resume"] if left(output) else []
        for folder in left(output):
            state = checkpoint.unpack((folder / checkpoint.NAME).read_bytes())
            clocks.add(state.again.shifts is not None)
    assert clocks == ({False, True} if join else {False})
    # WHEN the last one comes to its end THEN table and description are those of a whole import
    assert kills >= 3
    (table, info), (wanted, wanted_info) = whole(output), whole(tmp_path / "whole")
    assert info == wanted_info
    assert table.num_rows == info["counts"]["requests"]
    for name in table.column_names:
        assert table[name].to_pylist() == wanted[name].to_pylist()
    assert sorted(path.name for path in output.iterdir()) == ["requests.parquet", "trace.json"]
    assert not left(output)


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, Path]:
    """Return a file and the output of an import of it that was killed."""
    (source := tmp_path / "x").write_bytes(CONTENTS["text"][0])
    assert command(4, [source], tmp_path / "made") == -signal.SIGKILL
    assert len(left(tmp_path / "made")) == 1
    return source, tmp_path / "made"


def test_what_a_killed_import_left_is_named(killed: tuple[Path, Path]) -> None:
    source, output = killed
    # WHEN the same is begun again THEN it says what is there, and what to do
    with pytest.raises(UsageError, match=r"was killed behind byte [0-9,]+ of") as caught:
        import_trace(source, output)
    assert "--resume" in (caught.value.hint or "")
    assert str(left(output)[0]) in str(caught.value)
    # AND with other options, or another file, it is not gone on with
    with pytest.raises(UsageError, match="other options"):
        import_trace(source, output, options=ImportOptions(resumes=True, join="overlay"))
    # AND --force begins anew
    import_trace(source, output, options=ImportOptions(overwrite=True))
    assert not left(output)
    with pytest.raises(UsageError, match="no import was killed"):
        import_trace(source, output, options=ImportOptions(overwrite=True, resumes=True))


@pytest.mark.parametrize("change", ["longer", "touched", "head"])
def test_a_changed_source_is_not_gone_on_with(killed: tuple[Path, Path], change: str) -> None:
    source, output = killed
    before = source.stat()
    data = source.read_bytes()
    if change == "longer":
        source.write_bytes(data + b"\n")
    elif change == "head":
        source.write_bytes(b"2" + data[1:])
    times = (before.st_atime_ns, before.st_mtime_ns + (change == "touched"))
    os.utime(source, ns=times)
    with pytest.raises(InputError, match="it changed since its import was killed"):
        import_trace(source, output, options=ImportOptions(resumes=True))
    assert left(output)


def test_other_files_are_not_gone_on_with(tmp_path: Path) -> None:
    # GIVEN an import of three files that was killed
    sources, output = stored(tmp_path, "pieces"), tmp_path / "made"
    assert command(12, sources, output) == -signal.SIGKILL
    # WHEN one of them is missing or has changed THEN that is said
    resumes = ImportOptions(resumes=True)
    with pytest.raises(InputError, match="was killed with 4 files, not 3"):
        import_trace(sources[1:], output, options=resumes)
    sources[1].write_bytes(b"1" + sources[1].read_bytes())
    with pytest.raises(InputError, match=r"x\.1: it changed since its import was killed"):
        import_trace(sources, output, options=resumes)


class Other:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (os.system, ("true",))


def test_a_state_makes_nothing_but_a_state(killed: tuple[Path, Path]) -> None:
    source, output = killed
    (left(output)[0] / checkpoint.NAME).write_bytes(pickle.dumps(Other()))
    with pytest.raises(UsageError, match="not of this version"):
        import_trace(source, output, options=ImportOptions(resumes=True))


def test_a_trace_to_be_sorted_leaves_no_state(
    read: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a text whose disorder shows only behind some marks
    monkeypatch.setattr(reading, "CHUNK_BYTES", 8192)
    monkeypatch.setattr(reading, "CHECKPOINT_BYTES", 20_000)
    lines = CONTENTS["text"][0].decode().splitlines(keepends=True)
    mixed = lines[:9_000] + random.Random(1).sample(lines[9_000:], len(lines) - 9_000)  # noqa: S311
    # WHEN it is imported, for which it is read once more and sorted THEN nothing is left of them
    folder = read("".join(mixed), join="overlay")
    assert folder.content["counts"]["requests"] == LINES
    assert not (folder.path / checkpoint.NAME).exists()
