"""The closed list of doubts about a trace, each with what can be done about it."""

from __future__ import annotations

from typing import Any

STAGE = "parse"

ADVICE = {
    "lost_records": "capture again with larger buffers: latencies and totals can be wrong",
    "no_sequence_numbers": "the source cannot tell lost records; trust the tracer's own loss count",
    "unmatched_events": "expected at both ends of a capture; many of them mean lost records",
    "unseen_completions": "these requests have no completion and no latency: capture with blktrace"
    " or tracefs-blk, of which none is unseen",
    "unseen_not_measured": "trust the tracer's own loss count",
    "window_full": "requests that never completed were given up; look for lost completions",
    "repeated_records": "check that no file was given twice and that all are of one capture",
    "reordered_records": "nothing: they were put in order of time",
    "salvaged": "capture or copy the file again if the rest matters",
    "unknown_actions": "the kernel is newer than this tracekit: these events were left out",
    "passthrough": "nothing: commands to the device are no block I/O and have no row",
    "no_completions": "latency cannot be analysed: capture all actions, or import response times",
    "no_process_names": "capture with tracekit, which saves the names, or give --layout",
    "bad_lines": "trace.json shows the first of them; the rest was imported",
    "doubtful_units": "import again with the right --unit: sizes, places or rates can be wrong",
    "lone_times": "take these lines out if their times are wrong: they stretch the trace",
    "rounded_places": "check the unit of places",
    "guessed_roles": "check them; set roles with tracekit classify --role NAME=ROLE or --layout",
    "unknown_roles": "set roles with tracekit classify --role NAME=ROLE, or give a --layout",
    "absent_devices": "check that the layout belongs to this trace",
    "crossing_requests": "check that the layout belongs to this trace",
    "impossible_requests": "check the capture for damage",
    "traced_times": "take durations of short calls for upper bounds; think time is longer, too",
    "unseen_operations": "reads and writes by io_uring and libaio are not in the trace",
    "left_out_calls": "nothing if they are few: no file operation stands for them",
    "unknown_offsets": "capture from the start of the program, with --below its files",
    "unfinished_calls": "expected when threads end or the capture was ended early",
}


def warning(code: str, message: str, *, stage: str = STAGE) -> dict[str, Any]:
    """Return a warning of trace.json; `code` is one of ADVICE, `stage` the one that warns."""
    return {"code": code, "message": message, "advice": ADVICE[code], "stage": stage}
