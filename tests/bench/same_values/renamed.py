"""What may differ between two versions: names that were changed, and values that are measured.

Steps are written with the old words; the tables below give the new ones. Files, columns and keys of
JSON have the names that they had.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RenamedOption:
    """Words of a command line that the new version has under other words."""

    command: str
    old: tuple[str, ...]
    new: tuple[str, ...]


RENAMED_OPTIONS: tuple[RenamedOption, ...] = (
    RenamedOption("classify", ("--window", "2"), ("--window", "2s")),
    RenamedOption("simulate", ("--window", "5"), ("--window", "5s")),
    RenamedOption("simulate", ("--window", "3"), ("--window", "3s")),
    RenamedOption("simulate", ("--window", "5.0"), ("--window", "5s")),
    RenamedOption("simulate", ("--window", "3.0"), ("--window", "3s")),
    RenamedOption("verify-placement", ("--seconds", "0.2"), ("--duration", "0.2s")),
    RenamedOption("verify-placement", ("--repeats",), ("--repeat",)),
    RenamedOption("sweep", ("--runs",), ("--repeat",)),
    RenamedOption("counters", ("--runs",), ("--repeat",)),
)
RENAMED_VALUES = {
    "depth/depth_over_time": "latency/depth_over_time",
    "depth/depth_at_queue": "latency/depth_at_queue",
    "checks/carriers": "checks/merge_targets",
}
"""Old text in JSON to its new one."""
NEW_KEYS: dict[str, tuple[str, ...]] = {
    "*trace.json": ("clock.*", "devices", "layout", "counts", "loss.*", "inferences", "warnings")
}
"""Keys that the new version adds where they have nothing to hold: 0, null or an empty list."""
_WINDOW = "number from 0, start and length of a window"
_PART = "its number, first sector and length"
_OLD_MERGES = "of the request that carries the merged ones"
REWORDED = (
    (r"^and on$", "no end"),
    (r", from ([\d.]+\xa0\w+) on\b", r", from \1"),
    (rf"(window_number\b.*){_WINDOW}", r"\1number of the window, from 0"),
    (rf"(window_ns\b.*){_WINDOW}", r"\1its start"),
    (rf"(window_length_ns\b.*){_WINDOW}", r"\1its length"),
    (rf"(part_number\b.*){_PART}", r"\1number of the part, from 0"),
    (rf"(part_sector\b.*){_PART}", r"\1its first sector"),
    (rf"(part_sectors\b.*){_PART}", r"\1its length"),
    (_OLD_MERGES, "of the requests"),
    (r"\b([Ff]rom [\d.]+ [KMGT]?i?B) on (?=the |a |nothing)", r"\1 "),
    ("role and operation of the carrying request", "role and operation; requests as queued"),
    (r"request's way\b", "request's path"),
    ("more tell more", "better more"),
)
"""Patterns of a line, a cell or a text in JSON of the old version, and what is there now."""

RUN = (
    *("*clock.read_ns", "*clock.spin_lead_ns", "*clock.wake_*", "*timing.actual_duration_ns"),
    *("*timing.elapsed_ns", "*timing.drift_ns", "*timing.duration_error_ns", "*timing.cpu_*_ns"),
    *("*per_second", "*fidelity.cpu_*_ns", "*fidelity.*_ratio", "*fidelity.gap_*"),
    *("*issue_error", "*fidelity.preemptions", "*fidelity.punt_workers", "*late.count"),
    *("*late.other", "*in_flight_max", "*peak_memory_bytes", "*operations.*.service*"),
    *("*operations.*.response*", "*warnings", "*.latency", "*.histogram", "*timeline"),
    *("directory*.free_bytes", "preparation.elapsed_ns"),
)
"""What a run of a player measures."""
COMPARISON = ("headline", "rows.*.time_ns", "rows.*ratio")
DEVICE = ("headline", "fit", "warnings")
VERIFICATION = ("headline", "measured.*", "warnings", "verdict", "is_*", "*_error_ratio")
CAPTURE = ("capture.overhead.*_ns", "warnings.*.message")
VOLATILE_KEYS: dict[str, tuple[str, ...]] = {
    "printed/analyze-*": ("findings.*.elapsed_ns",),
    "printed/run-*": ("steps.*.elapsed_ns",),
    "printed/replay-*": RUN,
    "printed/bench-*": (*RUN, "points"),
    "printed/sweep-*": ("points",),
    "printed/characterize-device-*": DEVICE,
    "printed/capture-*": CAPTURE,
    "printed/compare-*": COMPARISON,
    "*/comparison.json": COMPARISON,
    "printed/verify-placement-*": VERIFICATION,
    "*/verification.json": VERIFICATION,
    "captured/trace.json": CAPTURE,
    "measured/device/device.json": DEVICE,
    "*/summary.json": RUN,
    "*/file_summary.json": RUN,
    "*/files/sweep.json": ("headline",),
    "*/files/runs/*.json": (*RUN, "summary.counts.*", "summary.steps"),
}
VOLATILE_COLUMNS: dict[str, tuple[str, ...]] = {
    "*/completions.parquet": ("submit_ns", "complete_ns"),
    "*/file_completions.parquet": ("*",),
    "*/verification.parquet": ("measured_ns",),
    "*/comparison.parquet": ("time_ns", "*ratio"),
    "*/files/file_runs.parquet": ("*",),
    "measured/device/*": ("*",),
}
"""Pattern of a file to patterns of keys (`timing.elapsed_ns`) or columns that a run measures.

Their values are not compared, their presence is; `*` leaves the number of rows open.
"""
VOLATILE_FILES = ("measured/device/profile.toml",)
"""Texts that hold what was measured: only their presence is compared."""
