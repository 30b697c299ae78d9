"""A standalone cluster of Spark on the loopback interface, of PySpark's own programs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYSPARK = ROOT / "build" / "spark"
"""Where `make spark-demo` installs PySpark."""
START_S = 120
POLL_S = 0.1
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
ADDRESS = re.compile(r"spark://127\.0\.0\.1:\d+")


def why_not() -> str:
    """Return why nothing runs on Spark here; empty when all parts are there."""
    if not (PYSPARK / "pyspark").is_dir():
        return f"no PySpark in {PYSPARK.relative_to(ROOT)}: make spark-demo installs it"
    done = subprocess.run(
        [sys.executable, "-c", "from tracekit.spark_parts import java_version; java_version()"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stderr.strip().splitlines() or [""])[-1]


def environment(**more: str) -> dict[str, str]:
    """Return the variables with which programs find PySpark."""
    path = os.pathsep.join(filter(None, [str(PYSPARK), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, **more}


@dataclass
class Cluster:
    """A master and its workers, one processor each."""

    folder: Path
    master: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    all: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, words: Sequence[str], awaited: str) -> str:
        """Start a program of Spark; return what matches in its log when it is ready."""
        log = self.folder / f"{name}.log"
        environs = environment(
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_LOCAL_DIRS=str(self.folder),
            SPARK_DAEMON_MEMORY="256m",
            SPARK_DAEMON_JAVA_OPTS="-XX:TieredStopAtLevel=1",
        )
        command = [str(PYSPARK / "pyspark/bin/spark-class"), *words]
        with log.open("wb") as out:
            program = subprocess.Popen(
                command, stdout=out, stderr=out, env=environs, start_new_session=True
            )
        self.all.append(program)
        end_s = time.monotonic() + START_S
        while not (found := re.search(awaited, log.read_text(errors="replace"))):
            if program.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"{name} of Spark did not start: see {log}")
            time.sleep(POLL_S)
        return found[0]

    def add_worker(self, name: str) -> None:
        """Start a worker and wait until the master has it."""
        words = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
        place = ("--work-dir", str(self.folder / name))
        self.start(name, (WORKER, *words, *place, self.master), "Successfully registered")
        self.workers.append(self.all[-1])

    def stop(self) -> None:
        """End all programs, those that workers started too, which are of their sessions."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for program in reversed(self.all):
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, number)
            for program in self.all:
                with suppress(subprocess.TimeoutExpired):
                    program.wait(10)


@contextmanager
def cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Yield a running cluster whose files are in a folder; it ends with the block."""
    made = Cluster(folder)
    try:
        words = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        made.master = made.start("master", (MASTER, *words), ADDRESS.pattern)
        for number in range(workers):
            made.add_worker(f"worker-{number + 1}")
        yield made
    finally:
        made.stop()
