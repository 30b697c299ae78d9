"""How much a workload did in a run: from its output, from a summary that it writes, or its time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.errors import InputError, UsageError

KEYS = (
    "operations_per_second",
    "requests_per_second",
    "bytes_per_second",
    "timing.requests_per_second",
    "timing.operations_per_second",
    "timing.bytes_per_second",
)
RUNS_A_SECOND = "runs a second"


@dataclass(frozen=True)
class Rule:
    """Where the throughput is found; with neither pattern nor file it is 1 / elapsed time."""

    pattern: str = ""
    summary: Path | None = None
    key: str = ""

    def __post_init__(self) -> None:
        """Check that the rule is one and can be used."""
        if self.pattern and self.summary is not None:
            raise UsageError("--throughput and --summary exclude each other")
        if self.key and self.summary is None:
            raise UsageError("--key needs the --summary in which it stands")
        if not self.pattern:
            return
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise UsageError(f"--throughput {self.pattern!r}: {error}") from None
        if groups != 1:
            raise UsageError(
                f"--throughput {self.pattern!r}: has {groups} groups, not one",
                hint="the number stands in round brackets, as in '([0-9.]+) ops/s'",
            )

    @property
    def unit(self) -> str:
        """What the throughput is, as it is shown."""
        if self.pattern:
            return f"output: {self.pattern}"
        if self.summary is not None:
            return f"summary: {self.key or 'operations, requests or bytes a second'}"
        return RUNS_A_SECOND

    def of_run(self, output: str, elapsed_ns: int) -> float:
        """Return the throughput of a run; InputError when it does not tell."""
        if self.pattern:
            return self.of_text(output, "the command's output")
        if self.summary is not None:
            return _of_summary(self.summary, self.key)
        return 1e9 / max(elapsed_ns, 1)

    def of_text(self, text: str, place: str) -> float:
        """Return the number that the pattern finds last, of a text; commas are taken out."""
        found = re.findall(self.pattern, text)
        if not found:
            raise InputError(f"--throughput {self.pattern!r} is nowhere in {place}")
        return _rate(found[-1].replace(",", ""), f"--throughput in {place}")


def _of_summary(file: Path, key: str) -> float:
    try:
        content = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--summary {file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"--summary {file}: not JSON: {error}") from None
    for one in (key,) if key else KEYS:
        value = _at(content, one)
        if value is not None:
            return _rate(value, f"{file}: {one}")
    raise InputError(
        f"{file} has no {key or 'rate'}",
        hint="name it with --key" if not key else f"it has: {_names(content)}",
    )


def _at(content: Any, key: str) -> Any:
    for word in key.split("."):
        if not isinstance(content, Mapping) or word not in content:
            return None
        content = content[word]
    return content


def _names(content: Any) -> str:
    return ", ".join(list(content)[:12]) if isinstance(content, Mapping) else "no keys"


def _rate(value: Any, place: str) -> float:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if isinstance(value, bool) or not math.isfinite(rate) or rate < 0:
        raise InputError(f"{place}: {value!r} is not a rate from 0 up")
    return rate
