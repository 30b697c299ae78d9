"""Writes a trace for another tool and tells what its format could not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tracekit.errors import InputError, UsageError
from tracekit.export.blkparse import BlkparseForm
from tracekit.export.fio import FioForm
from tracekit.export.form import Form, Told
from tracekit.export.msr import MsrForm
from tracekit.export.oracle import OracleForm
from tracekit.export.rows import Source
from tracekit.store import TraceFolder, beside

FORMS: dict[str, Form] = {
    form.name: form for form in (BlkparseForm(), FioForm(), MsrForm(), OracleForm())
}


def export(
    folder: TraceFolder,
    form: str,
    *,
    output: Path,
    overwrite: bool = False,
    on_rows: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Any]:
    """Write the trace into `output`, and what the format wants beside it; return what was done.

    `left_out` counts requests by why they are not in it, `changed` those that are there with
    something else, `unheld` for each column that the format lacks those that say something there.
    Raise UsageError for a file that is there, InputError when no request is left.
    """
    table = folder.require("requests", made_by="parse")
    chosen = FORMS[form]
    files = chosen.files(output)
    _refuse_existing(files, overwrite=overwrite)
    source = Source(table, folder.info, on_rows=on_rows)
    survey = source.survey(chosen.holds)
    with _all_beside(files) as parts:
        told = chosen.write(source, survey, parts=parts)
        _refuse_empty(told, f"{folder.path}: no request that {form} can hold")
    told.changes("guessed_times", source.guessed_times)
    return {
        "trace": str(folder.path),
        "format": form,
        "files": [str(path) for path in files],
        "requests": survey.requests,
        "written": told.written,
        "left_out": dict(told.left_out),
        "changed": dict(told.changed),
        "unheld": survey.unheld,
        **told.facts,
    }


def _refuse_empty(told: Told, message: str) -> None:
    if not told.written:
        counts = [f"{count:,} {why}" for why, count in told.left_out.items()]
        reasons = ", ".join(counts) or "the trace is empty"
        hint = "choose another --format, or a trace with reads or writes"
        raise InputError(f"{message} ({reasons})", hint=hint)


def _refuse_existing(files: Sequence[Path], *, overwrite: bool) -> None:
    for path in files:
        if path.is_file() and not overwrite:
            hint = "choose another --output or pass --force"
            raise UsageError(f"{path} exists already", hint=hint)


@contextmanager
def _all_beside(files: list[Path]) -> Iterator[Mapping[Path, Path]]:
    """Yield a temporary name for each file; they get their names when the block succeeds."""
    with ExitStack() as stack:
        yield {path: stack.enter_context(beside(path)) for path in files}
