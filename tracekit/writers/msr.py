"""CSV as that of MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from tracekit.arrow import number_column, text_column
from tracekit.formats import FILETIME_OF_1970
from tracekit.tables import OPERATIONS
from tracekit.units import SECTOR_BYTES
from tracekit.writers import rows as writing
from tracekit.writers.rows import ExportFormat, Outcome, Rows, Source, Survey

TYPES = {"read": "Read", "write": "Write"}
TICK_NS = 100
YEAR_2000_NS = 946_684_800 * 10**9


class MsrExport(ExportFormat):
    """Times and response times in 100 ns, times since 1601; a device is a host and a number."""

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
                    _write(out, rows, start=start, disks=disks)
        return outcome


def _write(out: IO[bytes], rows: Rows, *, start: int, disks: Sequence[tuple[str, str]]) -> None:
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
