"""A file system of dictionaries that runs a file plan, to check the plan and not the program."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.plans import file_plan


@dataclass
class Machine:
    """What a plan does, step by step; every rule that it breaks is an assertion."""

    plan: Path
    sizes: dict[int, int] = field(default_factory=dict)
    peak_bytes: int = 0
    open: dict[int, tuple[int, bool]] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    logs: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the plan's parts one after the other."""
        data = self.plan.read_bytes()
        self.header = np.frombuffer(data, file_plan.HEADER, 1)[0]
        place = file_plan.HEADER.itemsize
        parts: list[Any] = []
        for layout, key in (
            (file_plan.RECORD, "record"),
            (file_plan.THREAD, "thread"),
            (file_plan.STEP, "step"),
            (file_plan.FILE, "file"),
        ):
            count = int(self.header[f"{key}_count"])
            parts.append(np.frombuffer(data, layout, count, place))
            place += count * layout.itemsize
        self.records, self.threads, labels, self.files = parts
        self.labels = [label.decode() for label in labels["label"]]
        there = np.flatnonzero((self.files["is_present"] == 1) & (self.files["kind"] == 0))
        self.sizes = {int(file): int(self.files["size_bytes"][file]) for file in there}

    def thread(self, number: int) -> None:
        """Run one thread to its end."""
        first, count = (int(self.threads[number][key]) for key in ("first", "count"))
        for record in self.records[first : first + count]:
            self._do(record)
            self.peak_bytes = max(self.peak_bytes, sum(self.sizes.values()))

    def files_of_threads(self) -> dict[int, int]:
        """Return the lengths of all files but those that all threads append to."""
        return {file: size for file, size in self.sizes.items() if file not in self.logs}

    def _do(self, record: Any) -> None:
        name, flags = file_plan.OPERATIONS[record["operation"]], int(record["flags"])
        file, handle = int(record["file"]), int(record["handle"])
        if not flags & (file_plan.UNTIMED | file_plan.CONTINUES):
            self.steps[self.labels[record["step"]]] += 1
        if name == "create":
            assert file not in self.sizes or not flags & file_plan.EXCLUSIVE
            self.sizes.setdefault(file, 0)
        if name in ("create", "open"):
            assert file in self.sizes
            assert handle not in self.open
            self.open[handle] = (file, bool(flags & file_plan.APPEND))
            self.logs |= {file} if flags & file_plan.APPEND else set()
        elif name in ("stat", "unlink", "truncate"):
            assert file in self.sizes
            assert handle == file_plan.NONE
            self._change(name, file, int(record["length"]))
        elif name == "close":
            del self.open[handle]
        else:
            self._transfer(name, record)

    def _change(self, name: str, file: int, length: int) -> None:
        if name == "unlink":
            del self.sizes[file]
        elif name == "truncate":
            self.sizes[file] = length

    def _transfer(self, name: str, record: Any) -> None:
        file, appends = self.open[int(record["handle"])]
        if name in ("fsync", "fdatasync"):
            return
        assert file == record["file"]
        offset, length = int(record["offset"]), int(record["length"])
        assert length > 0
        if name == "read":
            assert offset < self.sizes[file] or self.sizes[file] == offset == 0
            return
        if appends:
            assert offset == file_plan.AT_POSITION
            offset = self.sizes[file]
        assert offset <= self.sizes[file]  # nothing leaves a hole
        self.sizes[file] = max(self.sizes[file], offset + length)
