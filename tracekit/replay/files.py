"""The stage for file operations: compiles a file plan, runs it, keeps what it brought."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from tracekit import store
from tracekit._native.players import KEPT_MARK, OWN_FOLDER, checked_program, run_files
from tracekit.choices import CacheState, Pace, check_choice
from tracekit.errors import PartialError, UsageError
from tracekit.replay.captured import compile_files
from tracekit.replay.completions import write_file_completions
from tracekit.replay.partial_results import (
    FILE_RECORDS,
    FILE_TABLE,
    PLAN,
    SUFFIX,
    StartedRun,
    keeping_partial_results,
    rescue,
)
from tracekit.replay.run_warnings import find_rescued
from tracekit.replay.summary import FileReplaySummary, content_of
from tracekit.store import TraceFolder

LATEST = "latest"
SUMMARY = "file_summary.json"


@dataclass(frozen=True, kw_only=True)
class FileReplayOptions:
    """How to replay file operations."""

    directory: Path
    name: str = LATEST
    pace: str = "trace"
    speed: str = "1"
    cache: str = "sync"
    """keep, sync (write back what was made) or cold (and drop the caches)."""
    limit: int | None = None
    keeps_files: bool = False
    overwrite: bool = False
    asked: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check what the program cannot check."""
        if "/" in self.name or self.name.startswith(".") or not self.name.isprintable():
            raise UsageError(f"--name {self.name!r}: not a plain name")
        check_choice(self.pace, Pace, option="--pace")
        check_choice(self.cache, CacheState, option="--cache")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit {self.limit}: not a number of operations")
        if not self.directory.is_dir():
            raise UsageError(f"--files {self.directory}: there is no such folder")
        own = self.directory / OWN_FOLDER
        if (own / KEPT_MARK).is_file() and not self.overwrite:
            raise UsageError(f"{own} is what a replay kept", hint="remove it, or pass --force")


def replay_files(folder: TraceFolder, options: FileReplayOptions) -> tuple[dict[str, Any], bool]:
    """Replay the file operations of a trace; return the summary and whether only a part was done.

    Keeps `plan.bin`, `file_completions.parquet` and `file_summary.json` in `replays/<name>`. Raises
    PartialError, and keeps nothing, when it was interrupted before the first operation.
    """
    checked_program()
    path = folder.path / "replays" / options.name
    overwrite = options.overwrite or options.name == LATEST
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists already", hint="choose another --name or pass --force")
    rescued = rescue(path.parent, {options.name})
    with store.new_folder(path, overwrite=overwrite, marker=SUMMARY) as place:
        compiled = compile_files(folder, place / PLAN, limit=options.limit)
        results = place / FILE_RECORDS
        arguments = ["--pace", options.pace, "--speed", options.speed, "--cache", options.cache]
        arguments += ["--keep"] if options.keeps_files else []
        arguments += ["--replace"] if options.overwrite else []
        arguments += ["--results", str(results)]
        kept = path.with_name(f"{options.name}{SUFFIX}")
        started = StartedRun(place / PLAN, results, asdict(compiled))
        with keeping_partial_results(kept, started):
            outcome = run_files(
                place / PLAN, options.directory, summary=place / SUMMARY, arguments=arguments
            )
        if "counts" not in outcome.summary:
            raise PartialError("interrupted while the files were made: nothing was replayed")
        summary = msgspec.convert(outcome.summary, FileReplaySummary)
        summary.name = options.name
        summary.compiled = asdict(compiled)
        summary.asked = None if options.asked is None else list(options.asked)
        summary.messages = outcome.messages.splitlines()
        summary.warnings = find_rescued(rescued)
        write_file_completions(results, place / FILE_TABLE)
        results.unlink()
        content = content_of(summary)
        store.write_json(place / SUMMARY, content)
    return content, outcome.is_partial


def describe(content: dict[str, Any]) -> str:
    """Return a replay in a few lines."""
    summary = msgspec.convert(content, FileReplaySummary)
    counts = summary.counts
    lines = [
        f"{counts['operations']:,} operations in {summary.timing.elapsed_ns / 1e9:,.3f} s,"
        f" {counts['failed']:,} not as in the trace, {counts['bytes'] / 2**20:,.1f} MiB moved"
    ]
    for one in summary.operations:
        mean = f"{one.latency.mean_ns / 1e3:>12,.1f} us mean" if one.latency else ""
        lines.append(f"  {one.name:<16}{one.done:>10,}{mean}")
    skipped = summary.compiled["skipped"]
    left_out = sum(skipped.values())
    if left_out:
        reasons = ", ".join(f"{why} {count:,}" for why, count in skipped.items())
        lines.append(f"  {left_out:,} left out: {reasons}")
    lines += [f"warning: {one.message}; {one.advice}" for one in summary.warnings]
    return "\n".join(lines)
