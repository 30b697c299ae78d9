"""Captures with blktrace(8), ended in every way; run in a guest, prints what happened as JSON."""

import importlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit import cli

SHARE, OUT, FS = (Path(os.environ[name]) for name in ("LAB_SHARE", "LAB_OUT", "LAB_FS"))
TALK = Path("/run/talk")
LIMIT_S = 60.0
ENDS = (signal.SIGINT, signal.SIGTERM)


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


DISK = "/dev/" + output_of("lsblk", "-no", "pkname", output_of("findmnt", "-no", "SOURCE", str(FS)))
SECOND = Path("/run/disk1").read_text().strip()


def write(count: int) -> list[str]:
    how = ["bs=4k", f"count={count}", "oflag=direct", "conv=notrunc", "status=none"]
    return ["dd", "if=/dev/zero", f"of={FS}/file", *how]


def is_traced(disk: str = DISK) -> bool:
    return Path(f"/sys/block/{Path(disk).name}/trace/enable").read_text().strip() == "1"


@dataclass(frozen=True)
class Running:
    """A `tracekit capture` in a process of its own, forked so that it need not start anew."""

    pid: int
    folder: Path

    def result(self) -> dict[str, Any]:
        """Wait for its end; return how it ended and what it left."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        texts = {name: (self.folder / name).read_text() for name in ("stdout", "stderr")}
        debugfs = os.path.ismount("/sys/kernel/debug")
        traced = is_traced() or is_traced(SECOND)
        return {"status": status, **texts, "is_traced": traced, "has_debugfs": debugfs}


def import_all() -> None:
    """Import once, before the forks, what is slow to import in a guest."""
    for name in ("numpy", "tracekit.capture.session"):
        importlib.import_module(name)
    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        cli.app(["capture", "--help"])


def fork_capture(name: str, *words: str) -> Running:
    folder = TALK / name
    folder.mkdir(parents=True)
    pid = os.fork()
    if pid:
        return Running(pid, folder)
    for number, stream in enumerate(("stdout", "stderr"), start=1):
        os.dup2(os.open(folder / stream, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["tracekit", "capture", DISK, "-o", str(OUT / name), *words]
    status: int | str | None = 0
    try:
        cli.main()
    except SystemExit as end:
        status = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0)


def capture(name: str, *words: str) -> dict[str, Any]:
    return fork_capture(name, *words).result()


def start(name: str, *disks: str) -> Running:
    """Start a capture of a command that sleeps; return when that runs."""
    mark = TALK / f"{name}-begun"
    running = fork_capture(name, *disks, "--", "sh", "-c", f"touch {mark}; exec sleep 1000")
    if not wait_until(mark.exists):
        raise RuntimeError((running.folder / "stderr").read_text())
    return running


def wait_until(condition: Any) -> bool:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True


def completed_writes() -> int:
    return int(Path(f"/sys/block/{Path(DISK).name}/stat").read_text().split()[4])


def whole() -> dict[str, Any]:
    before = completed_writes()
    found = capture("whole", "--json", "--", *write(300))
    return {**found, "kernel_writes": completed_writes() - before}


def without_debugfs() -> dict[str, Any]:
    subprocess.run(["umount", "/sys/kernel/debug"], check=True)
    found = capture("mounted", "--", *write(5))
    subprocess.run(["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"], check=True)
    return found


def two_disks() -> dict[str, Any]:
    """Write to the first disk and read from the second at once."""
    reads = ["dd", f"if={SECOND}", "of=/dev/null", "bs=4k", "count=25", "iflag=direct"]
    script = f"{' '.join(write(30))} & {' '.join(reads)} status=none; wait"
    found = capture("two", SECOND, "--json", "--", "sh", "-c", script)
    return {**found, "disks": [Path(disk).name for disk in (DISK, SECOND)]}


def written_by(group: Path) -> int:
    """Return the bytes that the kernel counts as written to the disk for a control group."""
    number = Path(f"/sys/block/{Path(DISK).name}/dev").read_text().strip()
    for line in (group / "io.stat").read_text().splitlines():
        device, *counts = line.split()
        if device == number:
            return int(dict(count.split("=") for count in counts)["wbytes"])
    return 0


def delayed_writes(source: str) -> dict[str, Any]:
    """Let two control groups write files that the kernel writes back later, and remove one."""
    top = Path("/sys/fs/cgroup")
    (top / "cgroup.subtree_control").write_text("+io +memory")
    groups = [top / f"{source}-{name}" for name in ("stays", "goes")]
    before, lines = {}, []
    for size, group in enumerate(groups, start=1):
        group.mkdir()
        before[group] = written_by(group)
        dd = f"exec dd if=/dev/zero of={FS}/{group.name} bs=64k count={32 * size} status=none"
        lines.append(f"sh -c 'echo 0 >{group}/cgroup.procs; {dd}'")
    counts = f"cat {groups[1]}/io.stat >{TALK}/{source}-stat; rmdir {groups[1]}"
    script = "; ".join([*lines, "sync", counts])
    found = capture(f"{source}-groups", "--source", source, "--", "sh", "-c", script)
    groups[1] = TALK / f"{source}-gone"
    groups[1].mkdir()
    (TALK / f"{source}-stat").rename(groups[1] / "io.stat")
    return {**found, "written": [written_by(group) for group in groups]}


def signalled(number: signal.Signals, name: str, *disks: str) -> dict[str, Any]:
    running = start(name, *disks)
    os.kill(running.pid, number)
    return running.result()


def killed() -> dict[str, Any]:
    """Kill tracekit alone: blktrace ends its trace by itself."""
    running = start("killed")
    os.kill(running.pid, signal.SIGKILL)
    running.result()
    return {"was_ended": wait_until(lambda: not is_traced())}


def killed_with_blktrace() -> dict[str, Any]:
    """Kill both: the kernel's trace goes on until the next capture."""
    running = start("both", SECOND)
    pid = int(output_of("pidof", "blktrace"))
    os.kill(pid, signal.SIGSTOP)
    os.kill(running.pid, signal.SIGKILL)
    running.result()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    was_left = is_traced() and is_traced(SECOND)
    return {**capture("next", "--", *write(5)), "was_left": was_left}


def lossy() -> dict[str, Any]:
    """Write to one disk of two while blktrace does not read, with the smallest buffers."""
    script = "kill -STOP $(pidof blktrace); " + " ".join(write(20000))
    script += "; kill -CONT $(pidof blktrace)"
    return capture("lossy", SECOND, "--buffer", "1MiB", "--json", "--", "sh", "-c", script)


def used_by_another() -> dict[str, Any]:
    command = ["blktrace", "-d", DISK, "-D", str(OUT / "other")]
    other = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_until(is_traced)
    found = capture("refused", "--source", "blktrace", "--", "true")
    other.send_signal(signal.SIGINT)
    other.wait()
    return found


def main() -> None:
    """Run all, one after the other."""
    TALK.mkdir()
    import_all()
    found = {
        "whole": whole(),
        "without_debugfs": without_debugfs(),
        **{number.name: signalled(number, number.name) for number in ENDS},
        "two_disks": two_disks(),
        "delayed": {source: delayed_writes(source) for source in ("blktrace", "tracefs-blk")},
        **{
            f"two-{number.name}": signalled(number, f"two-{number.name}", SECOND) for number in ENDS
        },
        "killed": killed(),
        "killed_with_blktrace": killed_with_blktrace(),
        "lossy": lossy(),
        "used_by_another": used_by_another(),
        "left": sorted(path.name for path in OUT.iterdir()),
    }
    sys.stdout.write(json.dumps(found))


main()
