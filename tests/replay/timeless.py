"""The program's emulated devices without a clock: what a plan takes on them, request by request."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.replay.program import compile_c
from tracekit.devices import Profile
from tracekit.plans import Records
from tracekit.replay.compiler import PlanReport
from tracekit.replay.player import device_spec

SOURCES = (
    *(f"play/{name}.c" for name in ("emulated_device", "latency_table", "quantiles", "number")),
    "model/spindle.c",
)


class Devices:
    """The program's own code of a device, made in a folder; skips where nothing can make it."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "device"
        here, native = Path(__file__).parent, Path(__file__).parents[2] / "replayer"
        files = [here / "emulated_device.c", *(native / source for source in SOURCES)]
        options = ["-std=c11", "-D_GNU_SOURCE", "-O1", f"-I{native}", "-o", str(self._program)]
        compile_c(*options, *files, "-lm")

    def serve(
        self, spec: str, requests: Sequence[Sequence[Any]], submits_ns: Sequence[int]
    ) -> list[int]:
        """Return when each (id, sector, sectors, operation, flags) is done, submitted then."""
        lines = [
            f"{submit_ns} {number} {sector * 512} {sectors * 512} {operation} {flags}\n"
            for (number, sector, sectors, operation, flags), submit_ns in zip(
                requests, submits_ns, strict=True
            )
        ]
        done = subprocess.run(
            [self._program, spec], input="".join(lines), capture_output=True, text=True, check=True
        )
        return [int(line) for line in done.stdout.split()]

    def elapsed_ns(
        self, records: Records, report: PlanReport, devices: Mapping[str, Profile]
    ) -> int:
        """Return what a plan takes at depth 1: the sum of its requests, each on its target."""
        columns = ("request_id", "sector", "length_sectors", "operation", "flags")
        total = 0
        for number, target in enumerate(report.targets):
            chosen = records[records["target"] == number]
            # (one at a time needs no second lane)
            spec = device_spec(replace(devices[target["label"]], parallelism=None))
            rows = list(zip(*(chosen[name].tolist() for name in columns), strict=True))
            total += max(self.serve(spec, rows, [0] * len(rows)), default=0)
        return total
