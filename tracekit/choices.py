"""The words that options choose from, each set once: stages check them, commands offer them."""

from __future__ import annotations

from typing import Any, Literal, get_args

from tracekit.errors import UsageError

Pace = Literal["trace", "closed", "fast"]
BenchPace = Literal["trace", "fast"]
LatePolicy = Literal["catch-up", "slip", "drop"]
Engine = Literal["auto", "io_uring", "threads", "nvme", "dax", "emulated", "null"]
VerifyingEngine = Literal["auto", "io_uring", "threads", "nvme", "dax", "emulated"]
"""Of them those that take a time."""
MeasuringEngine = Literal["auto", "io_uring", "threads", "dax", "emulated"]
"""Of them those by which a device can be measured."""
Direct = Literal["auto", "on", "off"]
OutOfRange = Literal["refuse", "wrap", "fold", "scale", "clip", "skip"]
Overlaps = Literal["allow", "order", "drop"]
CacheState = Literal["keep", "sync", "cold"]
Level = Literal["issued", "queued"]
Coverage = Literal["hottest", "start"]
Queueing = Literal["serial", "open"]
Policy = Literal[
    "lru", "fifo", "clock", "s3-fifo", "arc", "2q", "lirs", "sieve", "w-tinylfu", "optimum",
]  # fmt: skip
WritePolicy = Literal["through", "back", "around"]
WriteMiss = Literal["allocate", "bypass"]
Levels = Literal["exclusive", "inclusive"]
Amount = Literal["bytes", "requests"]
Rounding = Literal["largest-remainder", "floor", "nearest", "ceiling"]
MoveBy = Literal["latency", "bandwidth"]
CaptureSource = Literal["blktrace", "tracefs-blk", "bpf", "perf", "strace"]
Compression = Literal["none", "xz", "zstd"]
ImportFormat = Literal[
    "blkparse", "blk", "perf", "ftrace", "nvme", "ufs", "scsi", "octf", "perfetto", "rbd-replay",
    "vscsi1", "vscsi2", "oracleGeneral", "oracleGeneralOpNS", "lcs", "blkreplay", "msr", "spc",
    "alibaba", "tencent", "systor", "fiu", "mqsim", "disksim", "arc", "fio2", "fio3", "biosnoop",
    "iosnoop", "xperf", "dtrace-iosnoop", "vscsi-text", "k5cloud", "thesios", "tectonic", "lackey",
    "perf-mem", "perf-mem-report", "gem5-packets", "gem5", "ramulator", "ramulator-cpu",
]  # fmt: skip
Join = Literal["refuse", "sequence", "overlay"]
SplitBy = Literal["volume"]
SetEngine = Literal["local", "spark"]
ExportFormat = Literal["blkparse", "fio", "msr", "oracleGeneral"]
GenerateFormat = Literal["trace", "plan", "fio"]
ResultFormat = Literal["table", "csv", "json", "parquet"]
RunReplay = Literal["file", "null", "none"]


def words(choice: Any) -> tuple[str, ...]:
    """Return the words of one of the sets above, in their order."""
    return get_args(choice)


def check_choice(value: str, choice: Any, *, option: str) -> None:
    """Raise UsageError, naming `option`, for a word that is not in the set."""
    if value not in words(choice):
        raise UsageError(f"{option} {value}: not one of {', '.join(words(choice))}")
