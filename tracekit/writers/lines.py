"""Formats of one request a line: fio's I/O log, version 3, and CSV as that of MSR Cambridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from tracekit.arrow import number_column, text_column
from tracekit.errors import InputError, UsageError
from tracekit.formats import FILETIME_OF_1970
from tracekit.tables import OPERATIONS
from tracekit.units import BLOCK_BYTES, NS_PER_US, SECTOR_BYTES
from tracekit.writers import rows as writing
from tracekit.writers.rows import ExportFormat, Outcome, Rows, Source, Survey

ACTIONS = {"read": "read", "write": "write", "flush": "sync"}
"""A log may have `trim`, but fio 3.33 does not replay it and complains."""
JOB = """\
# Replays {log}, {requests:,} requests exported by tracekit. Run it in this folder:
#   fio {job}
# It makes a sparse file for each device of the trace, which fio --read_iolog={log} needs
# without this job, too, and keeps the trace's own pace; add
# replay_no_stall=1 to go as fast as possible. Before you measure: preallocate the files, for reads
# of holes cost nothing. On a disk, whose content is lost: replace exec_prerun by
# replay_redirect=/dev/..., which takes all devices of the trace as one. With ioengine=psync one
# request is done after the other; others with iodepth= keep more under way.
[replay]
read_iolog={log}
read_iolog_chunked=1
ioengine=psync
direct=1
exec_prerun={prepare}
"""
PREPARE_BYTES = 4000
"""fio takes what is behind 4095 bytes of a line for the next line."""


class FioExport(ExportFormat):
    """A log of `us FILE action offset length`, and NAME.fio.

    The job beside the log replays it on files of the same sizes.
    """

    name = "fio"
    holds = ("request_id", "queue_ns", "device", "sector", "length_bytes", "operation")

    def files(self, output: Path) -> list[Path]:
        """Return the log and its job; the log's name stands in the job, so it must be plain."""
        if writing.ODD.search(output.name) or (output.exists() and not output.is_file()):
            hint = "a file named by letters, digits and _.,+- such as trace.log"
            raise UsageError(f"--output {output}: no name for a file of a fio job", hint=hint)
        return [output, output.with_name(f"{output.name}.fio")]

    def write(self, source: Source, survey: Survey, *, parts: Mapping[Path, Path]) -> Outcome:
        """Write the log, in blocks by Arrow's CSV writer, and the job."""
        log, job = parts
        names = writing.plain_names(survey.devices)
        outcome = Outcome(facts={"names": dict(zip(survey.devices, names, strict=True))})
        last_us = 0
        with parts[log].open("wb") as out:
            out.write(b"fio version 3 iolog\n")
            out.write("".join(f"0 {name} add\n0 {name} open\n" for name in names).encode())
            for rows in outcome.fitting(source, list(ACTIONS)):
                if len(rows):
                    outcome.rounds(rows, NS_PER_US)
                    last_us = int(rows.time_ns[-1]) // NS_PER_US
                    writing.write_lines(out, _log_lines(rows, names), delimiter=" ")
            out.write("".join(f"{last_us} {name} close\n" for name in names).encode())
        sizes = [-(-end // BLOCK_BYTES) * BLOCK_BYTES or BLOCK_BYTES for end in survey.end_bytes]
        made = [f"truncate -s {size} {name}" for size, name in zip(sizes, names, strict=True)]
        if len(prepare := " && ".join(made)) > PREPARE_BYTES:
            message = f"{len(names)} devices: too many for a line of a fio job"
            raise InputError(message, hint="export to another format")
        text = JOB.format(log=log.name, job=job.name, requests=outcome.written, prepare=prepare)
        parts[job].write_text(text)
        return outcome


def _log_lines(rows: Rows, names: Sequence[str]) -> list[Any]:
    """Return the columns of a log's lines; a flush is of nothing: fio asks for numbers there."""
    is_flush = rows.operation == OPERATIONS.index("flush")
    offsets = np.where(is_flush, 0, rows.sector * SECTOR_BYTES)
    actions = [ACTIONS.get(name, "") for name in OPERATIONS]
    return [
        number_column(rows.time_ns // NS_PER_US, pa.int64()),
        text_column(rows.device, names),
        text_column(rows.operation, actions),
        number_column(offsets, pa.int64()),
        number_column(np.where(is_flush, 0, rows.length_bytes), pa.int64()),
    ]


TYPES = {"read": "Read", "write": "Write"}
TICK_NS = 100
YEAR_2000_NS = 946_684_800 * 10**9


class MsrExport(ExportFormat):
    """Lines of Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime.

    Times and response times are in 100 ns, times since 1601; a device is a host and a number.
    """

    name = "msr"
    holds = (
        "request_id", "queue_ns", "complete_ns", "device", "sector", "length_bytes", "operation",
    )  # fmt: skip

    def write(self, source: Source, survey: Survey, *, parts: Mapping[Path, Path]) -> Outcome:
        """Write the lines, in blocks by Arrow's CSV writer; without a wall clock, of 2000."""
        disks = _disks(survey.devices)
        names = [f"{host},{number}" for host, number in disks]
        wall_ns = source.info.clock.wall_ns
        outcome = Outcome(facts={"names": dict(zip(survey.devices, names, strict=True))})
        outcome.facts["has_wall_clock"] = wall_ns is not None
        start = FILETIME_OF_1970 + (YEAR_2000_NS if wall_ns is None else wall_ns) // TICK_NS
        (part,) = parts.values()
        with part.open("wb") as out:
            for rows in outcome.fitting(source, list(TYPES)):
                if len(rows):
                    outcome.rounds(rows, TICK_NS)
                    outcome.changes("no_completion", int((rows.response_ns < 0).sum()))
                    _write_rows(out, rows, start=start, disks=disks)
        return outcome


def _write_rows(
    out: IO[bytes], rows: Rows, *, start: int, disks: Sequence[tuple[str, str]]
) -> None:
    """Append the lines; a request that never completes has a response time of 0."""
    ticks = rows.time_ns // TICK_NS
    ends = (rows.time_ns + np.maximum(rows.response_ns, 0)) // TICK_NS
    columns = [
        number_column(start + ticks, pa.int64()),
        text_column(rows.device, [host for host, _ in disks]),
        text_column(rows.device, [number for _, number in disks]),
        text_column(rows.operation, [TYPES.get(name, "") for name in OPERATIONS]),
        number_column(rows.sector * SECTOR_BYTES, pa.int64()),
        number_column(rows.length_bytes, pa.int64()),
        number_column(ends - ticks, pa.int64()),
    ]
    writing.write_lines(out, columns, delimiter=",")


def _disks(devices: Sequence[str]) -> list[tuple[str, str]]:
    """Return host and disk number of each device, all different: of `src1,0` what it says."""
    found: list[tuple[str, str]] = []
    for name in writing.plain_names(devices):
        host, comma, number = name.rpartition(",")
        if not (comma and host and number.isdigit()):
            host, number = name, "0"
        host = host.replace(",", "_")
        while (host, number) in found:
            number = str(int(number) + 1)
        found.append((host, number))
    return found
