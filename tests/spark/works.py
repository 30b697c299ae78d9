"""Work with a volume that fails as workers do, and a program that runs it on Spark.

python -m tests.spark.works NAME SET MASTER
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

import tracekit as tk
from tracekit.fleet.catalogue import TraceSet
from tracekit.fleet.spark import on_spark
from tracekit.fleet.stages import run_each


def dies_once(path: Path) -> None:
    """Do the stage, and be killed after it the first time: Spark tries again."""
    mark = path.parent / f"died-{path.name}"
    tk.Trace(path).classify()
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def dies_always(path: Path) -> None:
    """Be killed with one of the volumes, as for want of memory, each time."""
    if path.name == "paging":
        os.kill(os.getpid(), signal.SIGKILL)
    tk.Trace(path).classify()


def main(name: str, place: str, master: str) -> None:
    """Run one of these with each volume; print what became of them as JSON."""
    # By the name by which a worker finds it: here it is of the program.
    work = getattr(import_module("tests.spark.works"), name)
    results = on_spark(master, log=Path(place) / "spark.log")
    traces = TraceSet(Path(place))
    outcome = run_each(traces, work, is_done=lambda _folder: False, results=results)
    errors = {volume: str(error) for volume, error in outcome.errors.items()}
    sys.stdout.write(json.dumps({"done": sorted(outcome.done), "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
