"""Attempts that came back with EAGAIN, as io_uring makes them: no rows, and counted."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.decode.block_layer import lines_of, run
from tests.decode.records import pack
from tests.parsed import requests
from tracekit._native.decode import Decoder
from tracekit.errors import InputError
from tracekit.readers import blktrace
from tracekit.readers.blktrace import ParseOptions, parse

ATTEMPT = "{0} Q R 77777+8 pid=9 dev={1}\n{0} C R 77777+8 error=-11 dev={1}"


def with_attempts(lines: list[str], chosen: random.Random) -> list[str]:
    """Return the events with attempts between them, at the time of the one before."""
    found = []
    for line in lines:
        time, device = line.split()[0], line.rpartition("dev=")[2].split()[0]
        count = chosen.choice((0, 0, 1, 3))
        found += [line, *ATTEMPT.format(time, device).splitlines() * count]
    return found


def parsed(folder: Path, lines: list[str], **options: Any) -> tuple[list[dict[str, Any]], int]:
    folder.mkdir()
    (folder / "c.blktrace.0").write_bytes(pack("\n".join(lines)))
    trace, _ = parse([folder], folder / "trace", options=ParseOptions(**options))
    return requests(trace).to_pylist(), trace.info.count("refused")


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_without_the_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # GIVEN what a model of the block layer did, merges among it, and the same with attempts
    lines = lines_of(run(seed, steps=2000, disks=2, cpus=1))
    attempts = with_attempts(lines, random.Random(seed))  # noqa: S311
    # (in batches of some rows, where merge targets are in earlier ones)
    batches = Decoder.batches
    monkeypatch.setattr(
        Decoder,
        "batches",
        lambda self: (batch.slice(at, 7) for batch in batches(self)
                      for at in range(0, len(batch), 7)),
    )  # fmt: skip
    monkeypatch.setattr(blktrace, "MERGE_REACH", 900)
    plain, none = parsed(tmp_path / "plain", lines)
    # WHEN they are parsed THEN nothing but their count differs
    rows, count = parsed(tmp_path / "attempts", attempts)
    assert (none, count) == (0, (len(attempts) - len(lines)) // 2)
    assert rows == plain
    assert sum(row["merged_into"] is not None for row in rows) > 20
    # AND a replay's own record keeps them
    kept, _ = parsed(tmp_path / "kept", attempts, keeps_refused=True)
    assert len(kept) == len(rows) + count


def test_what_failed_with_a_request_is_a_row(tmp_path: Path) -> None:
    lines = ["1 Q R 8+8", "2 G R 8+8", "3 D R 8+8", "4 C R 8+8 error=-11"]
    rows, count = parsed(tmp_path / "issued", lines)
    assert ([row["error"] for row in rows], count) == ([-11], 0)
    rows, count = parsed(tmp_path / "other", ["1 Q R 8+8", "4 C R 8+8 error=-5"])
    assert ([row["error"] for row in rows], count) == ([-5], 0)


def test_nothing_but_attempts_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of a queued or issued request"):
        parsed(tmp_path / "one", ATTEMPT.format(5, "7,0").splitlines())
