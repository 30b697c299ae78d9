"""Texts of events with other fields in front, as perf script -F and trace-cmd print them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.import_.test_event_texts import recorded, table
from tracekit.readers.importing import import_trace

PERF_HEAD = re.compile(r"^\s*(.+?) +(\d+) \[(\d+)\] +([0-9.]+): +(block:.*)$", re.MULTILINE)


@pytest.mark.parametrize(
    "head",
    [
        r"\1 \2/\2 [\3] \4: \5", r"\1 \2 [\3] \4:          1 \5", r"\1 \2 \4: \5",
        r"\2 [\3] \4: \5", r"[\3] \4: \5", r"\4: \5", r"\1 \2 \4:       1  \5", r"\4: 1 \5",
    ],
)  # fmt: skip
def test_heads_of_perf_script(tmp_path: Path, head: str) -> None:
    # GIVEN a recording of perf, printed with other fields, with call chains and Windows' endings
    text = recorded("perf").decode()
    whole = tmp_path / "whole"
    whole.write_text(text)
    chain = "\n\tffffffff8145f3a0 blk_mq_start_request+0x10 ([kernel.kallsyms])\n"
    other = tmp_path / "other"
    other.write_text(PERF_HEAD.sub(head.replace("\\5", "\\5" + chain), text), newline="\r\n")
    # WHEN both are imported, THEN they say the same but for the fields that are missing
    first, second = (import_trace(path, tmp_path / f"{path.name}-made") for path in (whole, other))
    missing = [name for name, field in (("cpu", r"\3"), ("pid", r"\2")) if field not in head]
    left, right = (table(one).drop_columns(missing) for one in (first, second))
    assert left.equals(right)
    assert second.content["counts"]["bad_lines"] == 0


def test_what_trace_cmd_dropped_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(recorded("ftrace") + b"CPU:1 [123 EVENTS DROPPED]\n")
    made = import_trace(path, tmp_path / "made")
    assert made.content["loss"]["dropped"] == 123
    assert made.content["counts"]["bad_lines"] == 0
