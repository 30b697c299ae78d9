"""A session with a Spark cluster, whose programs write to a log file and end with it."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from tracekit.errors import TracekitError, UsageError
from tracekit.spark_parts import java_version, pyspark_version

LOCAL = "local[2]"
CONNECT_S = 5
START_S = {"spark": 45, "local": 60}
"""How long a cluster may take to accept an application; others, which copy files first, take more.

Spark itself tries a master for a minute."""
LONGEST_START_S = 300
STOP_S = 8
KILL_S = 4
MASTER = re.compile(r"local(\[[^\]]+\])?|(spark|k8s|mesos)://.+|yarn")
CAUSE = re.compile(r"Caused by: (?:[\w.$]+: )?(.+)")
SAID = re.compile(r"(?:Exception|Error): (.+)")
MOST_SAID = 200


@contextmanager
def session(master: str, *, log: Path) -> Iterator[Any]:
    """Yield a SparkContext; what Spark and its Java print goes to the file `log`.

    Without a `master` it is that of spark-submit, where that runs this program, else two tasks at a
    time on this machine. TracekitError where Spark cannot be started, or does not reach its master
    in time. When the block ends, also by Ctrl-C, the application is gone from the cluster and its
    Java from this machine.
    """
    pyspark_version()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        java_version()
        master = master or LOCAL
    if master:
        check_master(master)
    with warnings.catch_warnings(), _log_file(log) as file:
        # Of pandas, which nothing here uses on Spark, and of a cluster that is gone when it ends.
        warnings.filterwarnings("ignore", module="pyspark")
        gateway = _launched(master, file, log)
        context = None
        try:
            context = _within(
                START_S.get(master.partition(":")[0].partition("[")[0], LONGEST_START_S),
                lambda: _context(gateway),
                log=log,
                master=master or "the master",
            )
            yield context
        finally:
            _end(context, gateway)


def check_master(master: str) -> None:
    """Raise UsageError for what is no address of a master, TracekitError where none answers."""
    if not MASTER.fullmatch(master):
        hint = "local[2], spark://HOST:7077, yarn, or k8s://https://HOST:PORT"
        raise UsageError(f"--master {master}: this is no master of Spark", hint=hint)
    if not master.startswith("spark://"):
        return
    places = master.removeprefix("spark://").split(",")
    reasons = []
    for place in places:
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise UsageError(f"--master {master}: {place} is not HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or 'no answer'}")
        else:
            return
    raise TracekitError(
        f"no Spark master answers at {'; '.join(reasons)}",
        hint="check --master: the page of a master, mostly port 8080, shows its address",
    )


@contextmanager
def _log_file(path: Path) -> Iterator[int]:
    """Yield the descriptor of a new file, to which the messages of py4j go, too."""
    with suppress(FileNotFoundError):
        path.unlink()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
    handler = logging.FileHandler(path)
    logger, root = logging.getLogger("py4j"), logging.getLogger()
    before = logger.propagate
    logger.addHandler(handler)
    # What py4j says of a Java that is gone it says to this one.
    root.addHandler(handler)
    logger.propagate = False
    try:
        yield file
    finally:
        logger.removeHandler(handler)
        root.removeHandler(handler)
        logger.propagate = before
        handler.close()
        os.close(file)


def _launched(master: str, file: int, log: Path) -> Any:
    """Return the connection to a Java that was started, or that spark-submit has started."""
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf().setAppName("tracekit")
    # Numbers are made as on one machine, where nothing here uses threads of this library.
    conf.set("spark.executorEnv.OPENBLAS_NUM_THREADS", "1")
    conf.set("spark.ui.showConsoleProgress", "false")
    if master:
        conf.setMaster(master)
    if master.startswith("local") or re.match(r"spark://(localhost|127\.)", master):
        conf.set("spark.driver.host", "127.0.0.1")
        conf.set("spark.driver.bindAddress", "127.0.0.1")
        conf.set("spark.ui.enabled", "false")
        # It only schedules: the second compiler would take two fifths of its time for nothing.
        conf.set("spark.driver.defaultJavaOptions", "-XX:TieredStopAtLevel=1")
        conf.set("spark.executor.defaultJavaOptions", "-XX:TieredStopAtLevel=1")
    before = _children()
    try:
        return launch_gateway(conf, popen_kwargs={"stdout": file, "stderr": file})
    except PySparkException:
        raise TracekitError(
            f"Spark does not start: {said(log)}", hint=f"all that it printed is in {log}"
        ) from None
    except BaseException:
        # A Java that is not connected yet would not notice that nobody needs it.
        for child in _children() - before:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise


def _children() -> set[int]:
    """Return the processes that this thread has started."""
    with suppress(OSError):
        return {*map(int, Path("/proc/thread-self/children").read_text().split())}
    return set()


def _context(gateway: Any) -> Any:
    from pyspark import SparkConf, SparkContext

    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
    context = SparkContext(conf=SparkConf(), gateway=gateway)
    # At the end it can meet a Java that is gone already, and would print its stack.
    if (server := getattr(context, "_accumulatorServer", None)) is not None:
        server.handle_error = lambda *_: None
    if "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return context


def _within(seconds: float, call: Callable[[], Any], *, log: Path, master: str) -> Any:
    """Return what a call returns; TracekitError when it fails, or is not over in time."""
    from py4j.protocol import Py4JError

    box: list[Any] = []

    def run() -> None:
        try:
            box.append(call())
        except Exception as error:
            box.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    found = box[0] if box else None
    if isinstance(found, Py4JError) or found is None:
        why = said(log) if found else f"no answer in {seconds:,.0f} s"
        raise TracekitError(
            f"Spark does not get to work with {master}: {why}",
            hint=f"all that Spark printed is in {log}",
        )
    if isinstance(found, Exception):
        raise found
    return found


def _end(context: Any, gateway: Any) -> None:
    """End the application and its Java; kill what does not end in time."""
    from pyspark import SparkContext

    if context is not None:
        stopping = Thread(target=_quietly, args=(context.stop,), daemon=True)
        stopping.start()
        stopping.join(STOP_S)
    _quietly(gateway.shutdown)
    if (java := gateway.proc) is not None:
        java.stdin.close()
        try:
            java.wait(KILL_S)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()
    # The next session in this process starts a Java of its own.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


def _quietly(call: Callable[[], Any]) -> None:
    with suppress(Exception):
        call()


def said(log: Path) -> str:
    """Return what a log says first that went wrong, shortened; else its last line."""
    text = log.read_text(errors="replace")
    found = CAUSE.search(text) or SAID.search(text)
    lines = text.strip().splitlines() or ["it printed nothing"]
    return (found[1] if found else lines[-1])[:MOST_SAID]
