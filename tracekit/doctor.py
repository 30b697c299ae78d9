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
import shutil
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
from typing import Literal

import numpy as np
import pyarrow as pa

from tracekit import _native
from tracekit._native.decode import Decoder
from tracekit._native.players import checked_program
from tracekit.arrow import int64_column, open_table
from tracekit.capture import files as strace
from tracekit.capture.blktrace import why_not as why_not_blktrace
from tracekit.capture.session import NAMES, choose
from tracekit.capture.tracefs import mounted_folder, read_setting
from tracekit.device.steps import Step, write_plan
from tracekit.errors import TracekitError
from tracekit.lab.image import find_image, reason_not_to_run
from tracekit.paths import data_folder
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


@dataclass(frozen=True)
class Group:
    """Checks that belong together."""

    title: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Ran:
    """What a program did."""

    status: int
    output: str
    complaint: str

    @property
    def first_complaint(self) -> str:
        """Return the first line of its complaint, or its exit status when it said nothing."""
        lines = self.complaint.strip().splitlines() or self.output.strip().splitlines()
        return lines[0].strip() if lines else f"exit status {self.status}"


def run(*command: str) -> Ran:
    """Run a program; one that does not end in time counts as failed."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(124, "", f"no answer within {TIMEOUT_S:.0f} s")
    except OSError as error:
        return Ran(127, "", f"{command[0]}: {error.strerror}")
    return Ran(done.returncode, done.stdout, done.stderr)


NEEDS_ROOT = Finding("missing", "not tried: needs root", "run: sudo tracekit doctor")


def missing_program(program: str, package: str) -> Finding | None:
    """Return the finding for a program that is not on PATH, or None when it is there."""
    if shutil.which(program) is not None:
        return None
    return Finding("missing", f"{program} is not on PATH", f"apt install {package}")


def caught(probe: Callable[[], Finding]) -> Finding:
    """Return the probe's finding; an error that it did not expect is a finding too."""
    try:
        return probe()
    except TracekitError as error:
        return Finding("broken", str(error), error.hint)
    except (OSError, ValueError, LookupError, ImportError) as error:
        return Finding("broken", f"{type(error).__name__}: {error}")


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
        ran = run(*command)
    if ran.status != 0:
        asked = " ".join(["--engine", engine, *more])
        return Finding("broken", f"tracekit-replay {asked}: {ran.first_complaint}")
    done = json.loads(ran.output)["counts"]["done"]
    return Finding("ok", f"replayed {done} requests")


def io_uring() -> Finding:
    """Replay with io_uring; say how the kernel's switch stands when it does not work."""
    found = _replay("io_uring")
    if found.status == "ok" or not URING_SWITCH.exists():
        return found
    detail = f"{found.detail}; kernel.io_uring_disabled is {URING_SWITCH.read_text().strip()}"
    remedy = "sysctl kernel.io_uring_disabled=0, or replay with --engine threads"
    return Finding("missing", detail, remedy)


def sqpoll() -> Finding:
    """Replay with a thread of the kernel that submits."""
    found = _replay("io_uring", "--sqpoll", "--sqpoll-idle-ms", "1")
    if found.status == "ok":
        return found
    return Finding("missing", found.detail, "replay without --sqpoll")


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
    found = missing_program("perf", "linux-perf")
    if found:
        return found
    events = (*HARDWARE_EVENTS, *SOFTWARE_EVENTS)
    ran = run("perf", "stat", "-x", ";", "-e", ",".join(events), "--", "true")
    if ran.status != 0:
        return Finding("broken", f"perf stat: {ran.first_complaint}")
    counted = set()
    for line in ran.complaint.splitlines():
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
        attached = run("losetup", "--find", "--show", "--read-only", image.name)
        if attached.status != 0:
            raise TracekitError(f"no loop device: {attached.first_complaint}", hint="modprobe loop")
        device = attached.output.strip()
        try:
            yield Path("/sys/block") / Path(device).name
        finally:
            detached = run("losetup", "--detach", device)
    if detached.status != 0:
        raise TracekitError(f"{device} stays attached: {detached.first_complaint}")


def loop_devices() -> Finding:
    """Attach a small file to a loop device and detach it."""
    if os.geteuid() != 0:
        return NEEDS_ROOT
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
        Check("hardware counters", "hardware counters beside a run", counters),
        Check("loop devices", "making sample traces", loop_devices),
        Check("KVM", "guests for captures that a host should not see", kvm),
        Check("VM lab", "guests for captures that a host should not see", lab),
    ),
)


EVENT = "block:block_rq_issue"


def blk_tracer() -> Finding:
    """See that the kernel's `blk` tracer is there, free, and may be set."""
    if os.geteuid() != 0:
        return NEEDS_ROOT
    folder = mounted_folder()
    if folder is None:
        return Finding("limited", "tracefs is not mounted; a capture mounts it")
    if "blk" not in (folder / "available_tracers").read_text().split():
        remedy = "use a kernel with CONFIG_BLK_DEV_IO_TRACE"
        return Finding("missing", "this kernel has no tracer blk", remedy)
    os.close(os.open(folder / "current_tracer", os.O_WRONLY))
    used_by = read_setting(folder / "current_tracer")
    if used_by != "nop":
        return Finding("limited", f"in use: current_tracer is {used_by}", "stop that tracing")
    return Finding("ok", f"free, {folder}")


def blktrace() -> Finding:
    """Set up a trace of an idle loop device and open its relay file, as blktrace(8) does."""
    found = missing_program("blktrace", "blktrace")
    if found or os.geteuid() != 0:
        return found or NEEDS_ROOT
    with _idle_disk() as disk:
        reason = why_not_blktrace(disk)
    if reason is not None:
        return Finding("broken", reason, "capture with another source: it is chosen by itself")
    return Finding("ok", "opened the relay file of an idle loop device")


def perf() -> Finding:
    """Record a block event on all CPUs with perf while `true` runs."""
    found = missing_program("perf", "linux-perf")
    if found:
        return found
    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-") as folder:
        # Without the build ids of all programs that run here, which nobody reads.
        record = ("perf", "record", "--no-buildid", "--no-buildid-cache", "-a", "-e", EVENT)
        ran = run(*record, "-o", f"{folder}/perf.data", "--", "true")
    if ran.status != 0:
        remedy = "run as root, or lower kernel.perf_event_paranoid"
        return Finding("broken", f"perf record -e {EVENT}: {ran.first_complaint}", remedy)
    missed = "completions that it misses, parse reports by the disk's counters"
    return Finding("ok", f"perf record -e {EVENT} works; {missed}")


def chosen() -> Finding:
    """Name the source that a capture would take here."""
    folder = mounted_folder()
    if os.geteuid() != 0:
        return NEEDS_ROOT
    if folder is None:
        return Finding("limited", "tracefs is not mounted; a capture mounts it")
    try:
        with _idle_disk() as disk:
            choice = choose(None, tracefs=folder, disks=[disk])
    except TracekitError as error:
        return Finding("missing", str(error), error.hint or "")
    if choice.refused:
        return Finding("limited", "; ".join(choice.notes))
    return Finding("ok", f"{choice.name}, the first of {', '.join(NAMES)}")


def bpftrace() -> Finding:
    """Attach to a block event with bpftrace and leave at once."""
    found = missing_program("bpftrace", "bpftrace")
    if found or os.geteuid() != 0:
        return found or NEEDS_ROOT
    program = f"tracepoint:{EVENT} {{ @n = count(); }} BEGIN {{ exit(); }}"
    ran = run("bpftrace", "-e", program)
    if ran.status != 0:
        return Finding("broken", ran.first_complaint, "use a kernel with CONFIG_BPF_EVENTS and BTF")
    return Finding("ok", f"attached to {EVENT}")


def files() -> Finding:
    """Trace the calls of `true` with strace."""
    found = missing_program("strace", "strace")
    if found:
        return found
    reason = strace.probe()
    if reason is not None:
        return Finding("broken", f"strace: {reason}", strace.REMEDY)
    return Finding("ok", "traced the calls of `true`")


SOURCES = Group(
    "Capture sources",
    (
        Check("block events of a capture", "tracekit capture", chosen),
        Check("tracefs blk tracer", "tracekit capture --source tracefs-blk", blk_tracer),
        Check("blktrace(8)", "tracekit capture --source blktrace", blktrace),
        Check("perf block events", "tracekit capture --source perf", perf),
        Check("bpftrace block events", "tracekit capture --source bpftrace", bpftrace),
        Check("strace file operations", "tracekit capture --files", files),
    ),
)


VERSION = re.compile(r"\d+(\.\d+)+")


def _tool(program: str, package: str, purpose: str, option: str = "--version") -> Check:
    def probe() -> Finding:
        found = missing_program(program, package)
        if found:
            return found
        ran = run(program, option)
        version = VERSION.search(ran.output + ran.complaint)
        if version is None:
            return Finding("broken", f"{program} {option}: {ran.first_complaint}")
        return Finding("ok", version.group())

    return Check(program, purpose, probe)


TOOLS = Group(
    "Tools",
    (
        _tool("fio", "fio", "measuring the replayer against fio"),
        _tool("blktrace", "blktrace", "captures with the relay", "-V"),
        _tool("blkparse", "blktrace", "proving the decoder", "-V"),
        _tool("btt", "blktrace", "proving the latencies", "-V"),
        _tool("perf", "linux-perf", "counters and captures"),
        _tool("bpftrace", "bpftrace", "captures with bpftrace"),
        _tool("chromium", "chromium", "looking at reports in tests"),
        _tool("sfdisk", "fdisk", "making sample traces"),
        _tool("mkfs.ext4", "e2fsprogs", "making sample traces", "-V"),
        _tool("losetup", "mount", "making sample traces"),
        _tool("xz", "xz-utils", "reading captures that are packed"),
    ),
)


GROUPS: tuple[Group, ...] = (CORE, ENGINES, SOURCES, MACHINE, TOOLS)
Result = tuple[Group, Check, Finding]


def examine(
    groups: tuple[Group, ...] = GROUPS, *, on_done: Callable[[], None] | None = None
) -> list[Result]:
    """Make every check, several at once, and return what they found in the groups' order."""

    def make(check: Check) -> Finding:
        finding = caught(check.probe)
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
