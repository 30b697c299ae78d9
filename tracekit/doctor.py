"""Checks of this machine: libraries, engines, capture sources, permissions and tools."""

from __future__ import annotations

import fcntl
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tracekit import _native
from tracekit._native.decode import Decoder
from tracekit._native.players import checked_program
from tracekit.arrow import int64_column, open_table
from tracekit.capture import recovery, strace, unfinished
from tracekit.capture.blktrace import why_not as why_not_blktrace
from tracekit.capture.bpf import REMEDY as BPF_REMEDY
from tracekit.capture.bpf import why_not as why_not_bpf
from tracekit.capture.bpf_files import why_not as why_not_bpf_files
from tracekit.capture.session import NAMES, choose
from tracekit.capture.tracefs import mounted_folder, read_setting
from tracekit.device.steps import Step, write_plan
from tracekit.errors import TracekitError
from tracekit.helper_programs import find_helper, run_helper, why_missing
from tracekit.lab.image import find_image, reason_not_to_run
from tracekit.paths import data_folder
from tracekit.spark_parts import java_version, pyspark_version
from tracekit.store import write_table
from tracekit.units import PAGE_BYTES

Status = Literal["ok", "limited", "missing", "broken"]
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Finding:
    """What was found."""

    status: Status
    """ok; limited: works in part; missing: not there; broken: there and does not work."""
    detail: str
    """What was tried and what it showed."""
    remedy: str = ""
    """What to do about it; empty when nothing is to be done."""


@dataclass(frozen=True)
class Check:
    """One question about this machine."""

    name: str
    purpose: str
    """What tracekit needs it for."""
    probe: Callable[[], Finding]
    is_required: bool = False
    """Whether the core does not work without it."""
    program: str = ""
    """Of PACKAGES: without it the rest is not tried."""
    needs_root: bool = False

    def finding(self) -> Finding:
        """Return what the probe finds; an error that it does not expect is a finding too."""
        if self.program and find_helper(self.program) is None:
            remedy = f"apt install {PACKAGES[self.program]}"
            return Finding("missing", why_missing(self.program), remedy)
        if self.needs_root and os.geteuid() != 0:
            return Finding("missing", "not tried: needs root", "run: sudo tracekit doctor")
        try:
            return self.probe()
        except TracekitError as error:
            return Finding("broken", str(error), error.hint)
        except (OSError, ValueError, LookupError, ImportError) as error:
            return Finding("broken", f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Group:
    """Checks that belong together."""

    title: str
    checks: tuple[Check, ...]


def run(
    *command: str, failure: str = "", remedy: str = "", any_status: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a program; raise TracekitError with its complaint if it does not end well and in time."""
    try:
        done = run_helper(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        complaint = f"no answer within {TIMEOUT_S:.0f} s"
    except OSError as error:
        complaint = f"{command[0]}: {error.strerror}"
    else:
        if done.returncode == 0 or any_status:
            return done
        complaint = first_complaint(done)
    raise TracekitError(f"{failure}: {complaint}" if failure else complaint, hint=remedy)


def first_complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first line of what a program said, or its exit status when it said nothing."""
    lines = done.stderr.strip().splitlines() or done.stdout.strip().splitlines()
    return lines[0].strip() if lines else f"exit status {done.returncode}"


# A blktrace v7 record: one write of 4 KiB is queued on device 7,0.
ONE_QUEUED_WRITE = struct.pack(
    "=IIQQIIIIIHH", 0x65617407, 1, 1, 8, 4096, 2 << 16 | 1, 7, 7 << 20, 0, 0, 0
)
REBUILD = "build it again: make setup"
LIBRARIES = ("duckdb", "jinja2", "numpy", "pandas", "pyarrow", "rich", "seaborn", "typer")


# Importing one of these takes longer than all other checks; the figures alone need them.
SLOW_LIBRARIES = ("pandas", "seaborn")


def python() -> Finding:
    """Say which Python runs this."""
    return Finding("ok", f"{platform.python_version()}, {sys.executable}")


def library() -> Finding:
    """Decode a trace of one record with the shared library."""
    path = _native.library_path()
    with tempfile.TemporaryFile() as trace:
        trace.write(ONE_QUEUED_WRITE)
        trace.seek(0)
        try:
            with Decoder([trace.fileno()]) as decoder:
                rows = sum(batch.num_rows for batch in decoder.batches())
        except AttributeError as error:
            return Finding("broken", f"{path} is of another version: {error}", REBUILD)
    if rows != 1:
        return Finding("broken", f"{path} decodes one request as {rows}", REBUILD)
    return Finding("ok", f"decodes: {path}")


def program() -> Finding:
    """Start the replay program."""
    return Finding("ok", f"starts: {checked_program()}")


def _library(name: str) -> Check:
    def probe() -> Finding:
        try:
            version = importlib.metadata.version(name)
            is_slow = name in SLOW_LIBRARIES
            found = importlib.util.find_spec(name) if is_slow else importlib.import_module(name)
        except ImportError as error:
            return Finding("broken", f"cannot be imported: {error}", "install again: make setup")
        return Finding("ok", version) if found else Finding("broken", "it has no module", REBUILD)

    return Check(name, "tables, figures, text", probe, is_required=True)


def data_files() -> Finding:
    """Count the queries and the templates."""
    queries = len(list(data_folder("analyzers").rglob("*.sql")))
    templates = len(list(data_folder("reports").rglob("*.j2")))
    detail = f"{queries} queries, {templates} templates, {data_folder('analyzers').parent}"
    if not queries or not templates:
        return Finding("broken", detail, "install again: make setup")
    return Finding("ok", detail)


def tables() -> Finding:
    """Write a Parquet table and read it back with SQL's reader of the same file."""
    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-") as folder:
        path = Path(folder) / "probe.parquet"
        # Of plain lists Arrow makes a table, and as a data set it reads one, with pandas imported.
        write_table(path, pa.table({"sector": int64_column(np.array([8, 16]))}))
        with open_table(path) as file:
            rows = file.read()["sector"].to_pylist()
    if rows != [8, 16]:
        return Finding("broken", f"a Parquet table came back as {rows}")
    return Finding("ok", "a Parquet table was written and read back")


CORE = Group(
    "Core",
    (
        Check("python", "everything", python, is_required=True),
        Check("native library", "decoding traces, simulating", library, is_required=True),
        Check("native program", "replaying", program, is_required=True),
        *map(_library, LIBRARIES),
        Check("queries and templates", "analyze, report", data_files, is_required=True),
        Check("parquet", "the trace folder", tables, is_required=True),
    ),
)


URING_SWITCH = Path("/proc/sys/kernel/io_uring_disabled")
BLOCK_DEVICES = Path("/sys/block")


def _replay(engine: str, *more: str) -> Finding:
    """Replay a plan of two requests with the engine on a file made for it."""
    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-") as folder:
        plan = Path(folder) / "plan.bin"
        write_plan(plan, Step("probe", 2, 0.5), size_bytes=PAGE_BYTES, seed=(0, 0))
        command = [str(checked_program()), str(plan), "--engine", engine, *more, "--quiet"]
        if engine != "null":
            command += ["--target", f"{folder}/target"]
        ran = run(*command, failure=" ".join(["tracekit-replay", "--engine", engine, *more]))
    return Finding("ok", f"replayed {json.loads(ran.stdout)['counts']['done']} requests")


def io_uring() -> Finding:
    """Replay with io_uring; say how the kernel's switch stands when it does not work."""
    try:
        return _replay("io_uring")
    except TracekitError as error:
        if not URING_SWITCH.exists():
            raise
        detail = f"{error}; kernel.io_uring_disabled is {URING_SWITCH.read_text().strip()}"
        remedy = "sysctl kernel.io_uring_disabled=0, or replay with --engine threads"
        return Finding("missing", detail, remedy)


def sqpoll() -> Finding:
    """Replay with a thread of the kernel that submits."""
    try:
        return _replay("io_uring", "--sqpoll", "--sqpoll-idle-ms", "1")
    except TracekitError as error:
        return Finding("missing", str(error), "replay without --sqpoll")


def polled_devices(block_devices: Path = BLOCK_DEVICES) -> list[str]:
    """Return the names of the block devices whose queues can be polled."""
    switches = sorted(block_devices.glob("*/queue/io_poll"))
    return [path.parent.parent.name for path in switches if path.read_text().strip() == "1"]


def iopoll() -> Finding:
    """Look for devices that can be polled: only there can it be tried."""
    devices = polled_devices()
    if devices:
        return Finding("ok", f"devices with queues for it: {', '.join(devices)}")
    remedy = "for an NVMe drive: nvme.poll_queues=N on the kernel's command line"
    return Finding("missing", "no block device has queues for it", remedy)


ENGINES = Group(
    "Replay engines",
    (
        Check("io_uring", "replaying with many requests in flight", io_uring),
        Check("io_uring --sqpoll", "submitting without calls", sqpoll),
        Check("io_uring --iopoll", "completions without interrupts", iopoll),
        Check("threads", "replaying anywhere", partial(_replay, "threads"), is_required=True),
        Check("null", "proving the timing of a replay", partial(_replay, "null"), is_required=True),
    ),
)


CAP_SYS_ADMIN = 21
KVM_GET_API_VERSION = 0xAE00
KVM_CREATE_VM = 0xAE01
KVM_CREATE_VCPU = 0xAE41
KVM_API_VERSION = 12
HARDWARE_EVENTS = ("cycles", "instructions", "cache-misses", "dTLB-load-misses")
SOFTWARE_EVENTS = ("page-faults", "context-switches")


def administrator() -> Finding:
    """Read the effective capabilities of this process."""
    status = Path("/proc/self/status").read_text()
    mask = int(status.partition("CapEff:")[2].split()[0], 16)
    who = f"user id {os.geteuid()}"
    if not mask >> CAP_SYS_ADMIN & 1:
        return Finding("missing", f"{who}, without CAP_SYS_ADMIN", "use sudo for capture")
    return Finding("ok", f"{who}, with CAP_SYS_ADMIN")


def paranoia() -> Finding:
    """Read how much perf allows to users without privileges."""
    level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    detail = f"kernel.perf_event_paranoid is {level}"
    if level > 1 and os.geteuid() != 0:
        return Finding("limited", detail, "sysctl kernel.perf_event_paranoid=1, or use sudo")
    return Finding("ok", detail)


def counters() -> Finding:
    """Count events of a short run with perf; name those that this machine cannot count."""
    events = (*HARDWARE_EVENTS, *SOFTWARE_EVENTS)
    words = ("perf", "stat", "-x", ";", "-e", ",".join(events), "--", "true")
    counted = set()
    for line in run(*words, failure="perf stat").stderr.splitlines():
        fields = line.split(";")
        if len(fields) > 2 and fields[0].replace(".", "").isdigit():
            counted.add(fields[2].partition(":")[0])
    missing = [event for event in events if event not in counted]
    if missing:
        remedy = "a virtual machine often has none: run on the hardware, or pass the PMU through"
        return Finding("limited", f"cannot count: {', '.join(missing)}", remedy)
    return Finding("ok", f"counts {', '.join(events)}")


@contextmanager
def _idle_disk() -> Iterator[Path]:
    """Yield the folder in /sys/block of a loop device that nobody uses."""
    with tempfile.NamedTemporaryFile(prefix="tracekit-doctor-") as image:
        image.truncate(1 << 20)
        words = ("losetup", "--find", "--show", "--read-only", image.name)
        device = run(*words, failure="no loop device", remedy="modprobe loop").stdout.strip()
        try:
            yield Path("/sys/block") / Path(device).name
        finally:
            run("losetup", "--detach", device, failure=f"{device} stays attached")


def loop_devices() -> Finding:
    """Attach a small file to a loop device and detach it."""
    with _idle_disk() as disk:
        pass
    return Finding("ok", f"attached and detached /dev/{disk.name}")


def kvm() -> Finding:
    """Create a virtual machine with one CPU, and drop it."""
    try:
        device = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        remedy = "enable virtualization, and join the group kvm"
        return Finding("missing", f"/dev/kvm: {error.strerror}", remedy)
    try:
        if fcntl.ioctl(device, KVM_GET_API_VERSION) != KVM_API_VERSION:
            return Finding("broken", "/dev/kvm speaks another version")
        machine = fcntl.ioctl(device, KVM_CREATE_VM, 0)
        try:
            os.close(fcntl.ioctl(machine, KVM_CREATE_VCPU, 0))
        finally:
            os.close(machine)
    except OSError as error:
        return Finding("broken", f"no virtual CPU: {error.strerror}", "QEMU emulates instead")
    finally:
        os.close(device)
    return Finding("limited", "a virtual CPU can be created; no guest was started")


def lab() -> Finding:
    """Look for QEMU and for the image that guests are booted from."""
    reason = reason_not_to_run()
    if reason:
        what, _, remedy = reason.partition(": ")
        return Finding("missing", what, remedy)
    image = find_image()
    if not image.is_built:
        return Finding("limited", "QEMU is there, no image is built", "run: tracekit lab build")
    return Finding("ok", f"image {image.folder}")


MACHINE = Group(
    "Permissions and machine",
    (
        Check("administrator", "capture, loop devices", administrator),
        Check("perf permission", "hardware counters beside a run", paranoia),
        Check("hardware counters", "hardware counters beside a run", counters, program="perf"),
        Check("loop devices", "making sample traces", loop_devices, needs_root=True),
        Check("KVM", "guests for captures that a host should not see", kvm),
        Check("VM lab", "guests for captures that a host should not see", lab),
    ),
)


EVENT = "block:block_rq_issue"
RECOVER = "run: sudo tracekit capture --recover"
NOT_MOUNTED = Finding("limited", "tracefs is not mounted; a capture mounts it")


def blk_tracer() -> Finding:
    """See that the kernel's `blk` tracer is there, free, and may be set."""
    folder = mounted_folder()
    if folder is None:
        return NOT_MOUNTED
    if "blk" not in (folder / "available_tracers").read_text().split():
        remedy = "use a kernel with CONFIG_BLK_DEV_IO_TRACE"
        return Finding("missing", "this kernel has no tracer blk", remedy)
    os.close(os.open(folder / "current_tracer", os.O_WRONLY))
    used_by = read_setting(folder / "current_tracer")
    if used_by != "nop" and recovery.settings_left():
        return Finding("limited", "a killed capture of tracekit left it on", RECOVER)
    if used_by != "nop":
        return Finding("limited", f"in use: current_tracer is {used_by}", "stop that tracing")
    return Finding("ok", f"free, {folder}")


def blktrace() -> Finding:
    """Set up a trace of an idle loop device and open its relay file, as blktrace(8) does."""
    with _idle_disk() as disk:
        reason = why_not_blktrace(disk)
    if reason is not None:
        return Finding("broken", reason, "capture with another source: it is chosen by itself")
    return Finding("ok", "opened the relay file of an idle loop device")


def perf() -> Finding:
    """Record a block event on all CPUs with perf while `true` runs."""
    record = ("perf", "record", "-a", "-e", EVENT)
    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-") as folder:
        # Without the build ids of all programs that run here, which nobody reads.
        more = ("--no-buildid", "--no-buildid-cache", "-o", f"{folder}/perf.data")
        run(
            *(*record, *more, "--", "true"),
            failure=f"perf record -e {EVENT}",
            remedy="run as root, or lower kernel.perf_event_paranoid",
        )
    missed = "completions that it misses, parse reports by the disk's counters"
    return Finding("ok", f"perf record -e {EVENT} works; {missed}")


def chosen() -> Finding:
    """Name the source that a capture would take here."""
    folder = mounted_folder()
    if folder is None:
        return NOT_MOUNTED
    try:
        with _idle_disk() as disk:
            choice = choose(None, tracefs=folder, disks=[disk])
    except TracekitError as error:
        return Finding("missing", str(error), error.hint or "")
    if choice.refused:
        return Finding("limited", "; ".join(choice.notes))
    return Finding("ok", f"{choice.name}, the first of {', '.join(NAMES)}")


def left_over() -> Finding:
    """Look for what captures that were killed left: kernel settings and records."""
    if (pid := recovery.running()) is not None:
        return Finding("ok", f"a capture runs: pid {pid}")
    left = [
        f"{path} (of {', '.join(manifest.disks) or 'file operations'}, by pid {manifest.pid})"
        for path, manifest in unfinished.left_over()
    ]
    if settings := recovery.settings_left():
        left.insert(0, f"a killed tracekit capture left changed: {', '.join(settings)}")
    if left:
        return Finding("limited", "; ".join(left), RECOVER)
    return Finding("ok", "nothing")


def bpf() -> Finding:
    """Load and attach the BPF programs, and leave at once."""
    reason = why_not_bpf()
    if reason is not None:
        return Finding("missing", reason, BPF_REMEDY)
    return Finding("ok", "loaded and attached to the block events")


def files() -> Finding:
    """Trace the calls of `true` with strace."""
    reason = strace.probe()
    if reason is not None:
        return Finding("broken", f"strace: {reason}", strace.REMEDY)
    return Finding("ok", "traced the calls of `true`")


def bpf_files() -> Finding:
    """Load and attach the BPF programs of file operations, and leave at once."""
    reason = why_not_bpf_files()
    if reason is not None:
        return Finding("missing", reason, BPF_REMEDY)
    return Finding("ok", "loaded and attached to the system calls")


def _source(name: str, options: str, probe: Callable[[], Finding], **needs: Any) -> Check:
    return Check(name, f"tracekit capture {options}", probe, **needs)


SOURCES = Group(
    "Capture sources",
    (
        Check("block events of a capture", "tracekit capture", chosen, needs_root=True),
        Check("left over by captures", "tracekit capture", left_over, needs_root=True),
        _source("tracefs blk tracer", "--source tracefs-blk", blk_tracer, needs_root=True),
        _source("blktrace(8)", "--source blktrace", blktrace, program="blktrace", needs_root=True),
        _source("perf block events", "--source perf", perf, program="perf"),
        _source("BPF block events", "--source bpf", bpf, needs_root=True),
        _source("strace file operations", "--files", files, program="strace"),
        _source("BPF file operations", "--files --source bpf", bpf_files, needs_root=True),
    ),
)


def _part_of_spark(name: str, version: Callable[[], str]) -> Check:
    def probe() -> Finding:
        try:
            return Finding("ok", version())
        except TracekitError as error:
            return Finding("missing", str(error), error.hint)

    return Check(name, "stages of a trace set with --engine spark", probe)


SPARK = Group(
    "Spark", (_part_of_spark("Java", java_version), _part_of_spark("PySpark", pyspark_version))
)


VERSION = re.compile(r"\d+(\.\d+)+")


def _tool(program: str, purpose: str, option: str = "--version") -> Check:
    def probe() -> Finding:
        ran = run(program, option, failure=f"{program} {option}", any_status=True)
        version = VERSION.search(ran.stdout + ran.stderr)
        if version is None:
            return Finding("broken", f"{program} {option}: {first_complaint(ran)}")
        return Finding("ok", version.group())

    return Check(program, purpose, probe, program=program)


TOOLS = Group(
    "Tools",
    (
        _tool("fio", "measuring the replayer against fio"),
        _tool("blktrace", "captures with the relay", "-V"),
        _tool("blkparse", "proving the decoder", "-V"),
        _tool("btt", "proving the latencies", "-V"),
        _tool("perf", "counters and captures"),
        _tool("chromium", "looking at reports in tests"),
        _tool("sfdisk", "making sample traces"),
        _tool("mkfs.ext4", "making sample traces", "-V"),
        _tool("losetup", "making sample traces"),
        _tool("xz", "reading captures that are packed"),
    ),
)
PACKAGES = {
    "blkparse": "blktrace",
    "blktrace": "blktrace",
    "btt": "blktrace",
    "chromium": "chromium",
    "fio": "fio",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "perf": "linux-perf",
    "sfdisk": "fdisk",
    "strace": "strace",
    "xz": "xz-utils",
}
"""The Debian package of each program."""


GROUPS: tuple[Group, ...] = (CORE, ENGINES, SOURCES, MACHINE, SPARK, TOOLS)
Result = tuple[Group, Check, Finding]


def examine(
    groups: tuple[Group, ...] = GROUPS, *, on_done: Callable[[], None] | None = None
) -> list[Result]:
    """Make every check, several at once, and return what they found in the groups' order."""

    def make(check: Check) -> Finding:
        finding = check.finding()
        if on_done is not None:
            on_done()
        return finding

    checks = [(group, check) for group in groups for check in group.checks]
    with ThreadPoolExecutor(max_workers=4) as pool:
        findings = list(pool.map(make, [check for _, check in checks]))
    return [(*pair, finding) for pair, finding in zip(checks, findings, strict=True)]


def core_works(results: list[Result]) -> bool:
    """Say whether every required check is good."""
    return all(finding.status == "ok" for _, check, finding in results if check.is_required)
