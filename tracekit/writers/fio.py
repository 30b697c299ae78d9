"""fio's I/O log, version 3, and a job beside it that replays it on files of the same sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit.arrow import number_column, text_column
from tracekit.errors import UsageError
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


class FioExport(ExportFormat):
    """A log of `us FILE action offset length`, and NAME.fio."""

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
                    writing.write_lines(out, _lines(rows, names), delimiter=" ")
            out.write("".join(f"{last_us} {name} close\n" for name in names).encode())
        sizes = [-(-end // BLOCK_BYTES) * BLOCK_BYTES or BLOCK_BYTES for end in survey.end_bytes]
        made = [f"truncate -s {size} {name}" for size, name in zip(sizes, names, strict=True)]
        text = JOB.format(
            log=log.name, job=job.name, requests=outcome.written, prepare=" && ".join(made)
        )
        parts[job].write_text(text)
        return outcome


def _lines(rows: Rows, names: Sequence[str]) -> list[Any]:
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
