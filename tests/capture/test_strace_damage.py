"""What strace did not print, or printed only in part, is counted or refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.capture.strace_text import THREAD, decode_text, lines, opened, wrote
from tracekit.errors import InputError


def test_what_is_not_understood_is_counted(tmp_path: Path) -> None:
    good = [opened("a", 0o102), *[wrote(1)] * 300]
    text = lines(
        *good,
        "io_uring_enter(4<anon_inode:[io_uring]>, 1, 0, 0, NULL, 8) = 1 <0.000000001>",
        'write(3</w/a>, ""...',
        "<... read resumed>) = 5 <0.000000001>",
        'write(9</w/unseen>, ""..., 5) = 5 <0.000000001>',
        'read(0<pipe:[3]>, ""..., 5) = 5 <0.000000001>',
        "fsync(3</w/a> <unfinished ...>",
        (101, "fsync(3</w/a>) = ?"),
    )
    rows, found = decode_text(tmp_path, text)
    stats = found.stats
    assert found.left_out == {"io_uring_enter": 1}
    assert (stats["bad_lines"], stats["first_bad_line"]) == (1, 303)
    assert (stats["orphan_ends"], stats["unfinished"], stats["abandoned"]) == (1, 1, 1)
    assert (stats["adopted"], stats["unplaced"], stats["orphan_threads"]) == (1, 1, 1)
    assert len(rows) == stats["rows"] == 302
    assert (rows[-1]["path"], rows[-1]["offset_bytes"]) == ("/w/unseen", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "wrote nothing"),
        (b"hello\nworld\n", "2 of 2 lines .* line 1: 'hello'"),
        (bytes(range(256)) * 40, "lines are not what strace prints"),
        (lines(opened("a", 0)).encode() + b"x\n" * 3, "3 of 4 lines .* line 2: 'x'"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode_text(tmp_path, text)


def test_damage_never_ends_in_a_crash(tmp_path: Path) -> None:
    # GIVEN lines of every kind, damaged at random places
    good = lines(
        opened("a", 0o102),
        THREAD,
        (101, wrote(3)),
        'rename("a", "b") = 0 <0.000000001>',
        "fsync(3</w/a> <unfinished ...>",
        (101, "sendfile(3</w/a>, 3</w/a>, [5] => [15], 10) = 10 <0.000000001>"),
        "<... fsync resumed>) = 0 <0.000000001>",
        'newfstatat(3</w/a>, "", {st_mode=0100644, st_size=71, ...}, 0x1000) = 0 <0.000000001>',
        "mmap(NULL, 8192, 0x3, 0x1, 3</w/a>, 0x2000) = 0x10000 <0.000000001>",
        "close_range(3, 4294967295, 0) = 0 <0.000000001>",
    ).encode()
    chance = random.Random(7)  # noqa: S311 - no secret
    for _ in range(60):
        spoilt = bytearray(good)
        for _ in range(chance.randrange(1, 12)):
            spoilt[chance.randrange(len(spoilt))] = chance.choice(b'0123456789<>"(){}[],=?\\ax\n\0')
        # WHEN they are decoded, THEN it is rows or an error that says why
        try:
            rows, found = decode_text(tmp_path, bytes(spoilt))
        except InputError:
            continue
        assert len(rows) == found.stats["rows"]
        assert [row["start_ns"] for row in rows] == sorted(row["start_ns"] for row in rows)
