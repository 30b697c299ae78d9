"""A capture of another machine's disks: by ssh, with nothing to install there.

The script `remote.sh` runs there with the kernel's tracer, and sends frames; here they become the
same files as those of a capture of this machine, so that `--recover` and `parse` take them.
"""

from __future__ import annotations

import math
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from msgspec import to_builtins

from tracekit.capture import blk_tracer
from tracekit.capture.blk_tracer import Cut
from tracekit.capture.command import Stop, failure_of, signals_held
from tracekit.capture.disk_counters import USELESS, WHY_GONE, CountersRead, counters_of, reading_of
from tracekit.capture.layout import LAYOUT_VERSION, describe_texts, disks_below
from tracekit.capture.live import LiveLine, Watch
from tracekit.capture.pieces import Pieces, asking_held
from tracekit.capture.session import Captured, CaptureOptions
from tracekit.capture.tracefs import names_in
from tracekit.capture.unfinished import Manifest, Unfinished, new_unfinished, space_check
from tracekit.errors import PartialError, TracekitError, UsageError
from tracekit.helper_programs import start_helper
from tracekit.layout import CaptureSummary
from tracekit.stack.mounts import read_mounts

SCRIPT = Path(__file__).with_name("remote.sh")
HELLO = b"tracekit-remote\n"
MOST_GREETING_BYTES = 1 << 16
MOST_FRAME_BYTES = 64 << 20
MOST_DIGITS = 12
MOST_CPUS = 8192
"""As many as Linux can have."""
READ_BYTES = 1 << 18
NO_ROOT = (
    "no rights: neither root there, nor sudo without a password\n"
    "let root log in by key (ssh root@HOST), or let that user run sudo without a password (visudo)"
)
# What runs the script with the rights that it needs; "$@" is the script and its arguments.
_AS_ROOT = (
    'if [ "$(id -u)" = 0 ]; then exec sh -c "$@";'
    ' elif sudo -n true 2>/dev/null; then exec sudo -n sh -c "$@";'
    f" else echo tracekit-remote; echo 'error - {len(NO_ROOT)}'; printf '%s' '{NO_ROOT}'; fi"
)
PAUSE_S = 0.1
PATIENCE_S = 5.0


@dataclass
class Frames:
    """The frames of a connection, taken apart as they come."""

    _data: bytearray = field(default_factory=bytearray)
    is_greeted: bool = False

    def take(self, data: bytes) -> list[tuple[str, str, bytes]]:
        """Return the frames that are whole by now: kind, name, content."""
        self._data += data
        if not self.is_greeted:
            # A shell may print something of its own before.
            before, hello, rest = bytes(self._data).partition(HELLO)
            if not hello:
                if len(before) > MOST_GREETING_BYTES:
                    raise TracekitError("the host does not answer as a shell does")
                return []
            self._data, self.is_greeted = bytearray(rest), True
        found = []
        while (end := self._data.find(b"\n")) >= 0:
            words = self._data[:end].decode(errors="replace").split()
            if len(words) != 3 or not words[2].isdecimal() or len(words[2]) > MOST_DIGITS:
                raise TracekitError(f"the host sent what is no frame: {' '.join(words)[:60]}")
            last = end + 1 + int(words[2])
            if int(words[2]) > MOST_FRAME_BYTES:
                raise TracekitError(f"the host sent a frame of {int(words[2]):,} bytes")
            if len(self._data) < last:
                break
            found.append((words[0], words[1], bytes(self._data[end + 1 : last])))
            del self._data[:last]
        if end < 0 and len(self._data) > MOST_GREETING_BYTES:
            raise TracekitError("the host sent a line without an end")
        return found


class Connection:
    """The ssh process, and what it brings."""

    def __init__(self, host: str, words: Sequence[str]) -> None:
        """Start `words` there; raise TracekitError where there is no ssh."""
        self.host = host
        # Ctrl-C is for this process, which then ends the recording in order.
        remote = shlex.join(["sh", "-c", _AS_ROOT, "sh", SCRIPT.read_text(), *words])
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._process = start_helper(
                ["ssh", "-T", "-o", "ServerAliveInterval=15", "--", host, remote],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        finally:
            signal.signal(signal.SIGINT, before)
        self._out: IO[bytes] = self._process.stdout  # type: ignore[assignment]
        self._frames = Frames()
        self.is_open = True

    def read(self, pause_s: float) -> list[tuple[str, str, bytes]]:
        """Return the frames that came within the pause; at the end of all, close."""
        has_ended = self._process.poll() is not None
        if select.select([self._out], [], [], pause_s)[0]:
            data = os.read(self._out.fileno(), READ_BYTES)
        elif has_ended:
            data = b""  # whoever else has its end open is not ssh
        else:
            return []
        if not data:
            self.close()
        return self._frames.take(data)

    def send(self, word: str) -> None:
        """Send a word on the control channel."""
        if self._process.stdin:
            with suppress(OSError, ValueError):
                self._process.stdin.write(f"{word}\n".encode())

    def hang_up(self) -> None:
        """End the control channel: the other side ends, too."""
        if self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()

    def close(self) -> int:
        """Close the connection; return the exit code of ssh."""
        self.is_open = False
        self.hang_up()
        self._out.close()
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:  # a command that was left holds its end open
            self._process.terminate()
            return self._process.wait()


@dataclass
class Arrived:
    """What came of a host so far."""

    texts: dict[str, str] = field(default_factory=dict)
    cgroups: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """Programs that the host has not."""
    disks: dict[str, list[str]] = field(default_factory=dict)
    facts: list[str] = field(default_factory=list)
    clock_ahead_s: float = 0.0
    """How far its clock was ahead of ours when its facts came."""
    begin: dict[str, CountersRead | str] = field(default_factory=dict)
    finish: dict[str, CountersRead | str] = field(default_factory=dict)
    overrun: int = 0
    dropped: int = 0
    taken: int | None = None
    sent_bytes: int | None = None
    record_bytes: int = 0
    failure: str | None = None
    exit_code: int | None = None


def capture_remote(
    host: str, devices: Sequence[str], *, output: Path, options: CaptureOptions
) -> Captured:
    """Record the block events of `devices` of `host`, as ssh names it, into the new folder.

    Raise UsageError for what cannot be meant, TracekitError when the host does not allow it. Once
    it records, all that arrived is kept.
    """
    if host.startswith("-") or not host:
        raise UsageError(f"--remote {host}: no name of a host", hint="give user@host")
    names = [device.removeprefix("/dev/") for device in devices]
    for name in names:
        if not name.replace("-", "").replace("_", "").isalnum() or names.count(name) > 1:
            raise UsageError(f"{name}: no disk, or named twice", hint="name each once: /dev/sda")
    if output.exists():
        raise UsageError(f"{output} exists already", hint="choose another --output")
    settings = [f"{name}={value}" for name, value in blk_tracer.FIXED.items()]
    words = ["tracekit", str(options.buffer_kib), " ".join(names), " ".join(settings)]
    with (
        asking_held(options.keeping),
        new_unfinished(output) as unfinished,
        signals_held() as stop,
    ):
        connection = Connection(host, [*words, *options.command])
        run = RemoteRun(connection, options, stop, unfinished, names)
        try:
            run.begin(output)
            run.record()
        except TracekitError:
            if not run.is_begun:
                unfinished.forget()
            raise
        finally:
            connection.close()
        return run.written(output)


@dataclass
class RemoteRun:
    """A capture of a host while it records: whatever fails, what arrived is kept."""

    connection: Connection
    options: CaptureOptions
    stop: Stop
    unfinished: Unfinished
    names: Sequence[str]
    manifest: Manifest = field(init=False)
    arrived: Arrived = field(default_factory=Arrived)
    is_begun: bool = False
    notes: list[str] = field(default_factory=list)
    failure: str | None = None
    duration_s: float = 0.0
    pieces: Pieces | None = None
    cuts: int = 1
    """The number of the files that are written to."""
    _process_names: dict[int, str] = field(default_factory=dict)
    _watch: Watch | None = None
    _line: LiveLine | None = None
    _has_space: Callable[[int], None] = lambda _recorded_bytes: None
    _cut: Cut | None = None
    """The last, before the counters behind it are there."""
    _looked_bytes: int = 0
    _end_s: float = math.inf
    _ended_s: float | None = None
    _passed_on: int = 0
    """Signals that were passed on."""
    _is_left: bool = False
    """A second signal came: the command is left to itself."""

    def begin(self, output: Path) -> None:
        """Wait until it records there."""
        while not self.arrived.begin.keys() >= {*self.names}:
            self._read(0.2)
            if self.stop.signals:
                raise TracekitError(f"stopped by {self.stop.name} before it began to record")
            if not self.connection.is_open:
                raise self._refusal()
        try:
            self.manifest = self._described(output)
        except (KeyError, ValueError):
            raise self._wrong("facts") from None
        self._reject_own_disk(self.manifest, output)
        self.unfinished.save(self.manifest)
        self.is_begun = True
        keeping, on_line = self.options.keeping, self.options.on_line
        if keeping.last_s is not None or on_line:
            self._watch = Watch(keeps_latencies=bool(on_line))
        if keeping.is_in_pieces:
            disks = [Path(name) for name in self.names]
            self.pieces = Pieces(
                self,
                self.manifest,
                output=output,
                disks=disks,
                keeping=keeping,
                watch=self._watch,
            )
            self.pieces.begin(self._readings(self.arrived.begin))
            signal.signal(signal.SIGUSR1, self.pieces.ask)

    def _refusal(self) -> TracekitError:
        host, why = self.connection.host, self.arrived.failure
        code = self.connection.close()
        if why is None:
            why = f"ssh ended with exit code {code} before it recorded"
            hint = f"try: ssh {host} true; a user other than root needs: ssh {host} sudo -n true"
        else:
            why, _, hint = why.partition("\n")
            hint = hint or f"change that on {host}, and capture again"
        return TracekitError(f"{host}: {why}", hint=hint)

    def _described(self, output: Path) -> Manifest:
        """Return the manifest: the layout comes from texts of the host's own programs."""
        found = self.arrived
        offset, pid, boot_id, kernel, node, _ = found.facts
        partitions: list[dict[str, Any]] = []
        try:
            described = describe_texts(found.texts, self.names)
            partitions = described.layout["partitions"]
            self.notes += [f"{node}: {doubt}" for doubt in described.doubts]
        except TracekitError as error:
            self.notes.append(f"what is on the disks of {node} is not known: {error}")
        if found.missing:
            absent = ", ".join(sorted(set(found.missing)))
            self.notes.append(f"{node} does not have {absent}: what it would say is left out")
        layout = {
            "layout_version": LAYOUT_VERSION,
            "kernel": kernel,
            "devices": [_disk(name, found.disks[name]) for name in self.names],
            "partitions": partitions,
        }
        summary = CaptureSummary(
            source=blk_tracer.BlkTracer.name, command=list(self.options.command)
        )
        return Manifest(
            output=output.name,
            pid=int(pid),
            boot_id=boot_id,
            began_ns=time.time_ns(),
            compress=self.options.compress,
            disks=list(self.names),
            layout=layout,
            summary=summary,
            cgroups=found.cgroups,
            recorded={"clock_to_wall_ns": int(offset)},
        )

    def _reject_own_disk(self, manifest: Manifest, output: Path) -> None:
        """Raise UsageError where the host is this machine and the disk below the output."""
        if not manifest.is_of_this_boot:
            return
        below = disks_below(self.unfinished.path, read_mounts())
        for name in self.names:
            if name in below:
                raise UsageError(
                    f"{output} is on the traced disk {name}: the capture would record itself",
                    hint="choose an --output on another disk, or on a tmpfs such as /dev/shm",
                )

    def record(self) -> None:
        """Take what comes until it is time to stop, then the rest."""
        options = self.options
        began_s = time.monotonic()
        self._end_s = began_s + options.duration_s if options.duration_s else math.inf
        mirror = [self.unfinished.path / f"disk-{name}" for name in self.names]
        self._line = LiveLine(mirror, self._watch, self.losses) if options.on_line else None
        self._has_space = space_check(self.unfinished.path, blk_tracer.BlkTracer.copies)

        def step() -> None:
            self._read(PAUSE_S)
            if not self._is_ended:
                self._look()
            self._show_line()

        while self.connection.is_open and not self._is_whole:
            if (failed := failure_of(step)) is not None:
                self.failure = self.failure or str(failed)
                self._end()
            self._end_when_due()
        self.duration_s = (self._ended_s or time.monotonic()) - began_s

    def _show_line(self) -> None:
        if self._line and self.options.on_line and (text := self._line.text()):
            self.options.on_line(text)

    def _look(self) -> None:
        """See to what is kept of what arrived, and that there is space for it."""
        arrived_bytes = self.arrived.record_bytes
        if self.pieces is not None:
            moved, self._looked_bytes = arrived_bytes - self._looked_bytes, arrived_bytes
            self.pieces.look(moved)
            self.pieces.need_space(self._has_space)
            return
        self._has_space(arrived_bytes)
        if self._watch:
            self._watch.pair()

    def cut_counted(self) -> Cut | None:
        """Have it cut there; None where the recording ends before that is known here."""
        self._cut, before_bytes = None, self.arrived.record_bytes
        self.connection.send("cut")
        while self._cut is None or not self.arrived.begin.keys() >= {*self.names}:
            if not self.connection.is_open or self.arrived.sent_bytes is not None:
                return None
            self._read(PAUSE_S)
            self._end_when_due()
            self._show_line()
            if self.pieces is not None and not self._is_ended:
                more_bytes = self.arrived.record_bytes - before_bytes
                self.pieces.need_space(self._has_space, more_bytes=more_bytes)
        return replace(self._cut, begin=self._readings(self.arrived.begin))

    def _note_cut(self) -> None:
        """Let what comes next go into new files: the host read its counters before, and will."""
        arrived, files = self.arrived, sorted(self.unfinished.path.glob(f"cpu*.{self.cuts:06}"))
        self._cut = Cut(self._readings(arrived.finish), files, self.losses(), [])
        arrived.begin, arrived.finish = {}, {}
        self.cuts += 1
        self._looked_bytes = arrived.record_bytes

    def _end_when_due(self) -> None:
        """End the recording at its time, at its size, or at a signal."""
        arrived_bytes = self.arrived.record_bytes
        is_large = self.pieces is None and arrived_bytes >= self.options.keeping.most_bytes
        if not self._is_ended and is_large:
            self.notes.append(f"recording ended at --max-size, after {arrived_bytes:,} bytes")
            self._end()
        if not self._is_ended and time.monotonic() >= self._end_s:
            self._end()
        count = len(self.stop.signals)
        if count > self._passed_on:
            self._passed_on = count
            self._pass_on(count if self.options.command else count + 1)

    def _pass_on(self, step: int) -> None:
        """End the command, then the recording alone, then the connection."""
        if step == 1:
            self.connection.send("term")
        elif step == 2:
            self._is_left = bool(self.options.command)
            self.connection.hang_up()
        else:
            self.connection.close()

    def _end(self) -> None:
        """End the recording, and not the command."""
        if not self._is_ended:
            self._ended_s = time.monotonic()
            self.connection.send("stop")

    @property
    def _is_whole(self) -> bool:
        """Whether nothing more is to come."""
        waits = self.options.command and not self._is_left and self.arrived.exit_code is None
        return self.arrived.sent_bytes is not None and not waits

    @property
    def _is_ended(self) -> bool:
        return self._ended_s is not None

    @property
    def clock_ahead_s(self) -> float:
        """How far the clock of the records is ahead of this process's."""
        return self.arrived.clock_ahead_s

    def losses(self) -> dict[str, int]:
        """Return how many records the host lost, as far as is known here."""
        return {"overrun": self.arrived.overrun, "dropped": self.arrived.dropped}

    def counters(self) -> dict[str, int]:
        """Return nothing: what the kernel there counts is of its own script."""
        return {}

    def _readings(self, found: dict[str, CountersRead | str]) -> list[CountersRead | str]:
        why = "the connection was lost before they were read"
        return [found.get(name, why) for name in self.names]

    def _read(self, pause_s: float) -> None:
        for kind, name, data in self.connection.read(pause_s):
            if kind == "cpu":
                self._keep(name, data)
            elif kind == "cut":
                self._note_cut()
            elif kind == "names":
                names, file = names_in(data.decode(errors="replace")), blk_tracer.NAMES
                blk_tracer.keep_names(self.unfinished.path / file, names, known=self._process_names)
            elif kind == "stat" and name in self.names:
                folder = self.unfinished.path / f"disk-{name}"
                folder.mkdir(exist_ok=True)
                (folder / "stat").write_bytes(data)
            elif kind in TAKE:
                try:
                    TAKE[kind](self.arrived, name, data.decode(errors="replace"))
                except ValueError:
                    raise self._wrong(kind) from None

    def _wrong(self, what: str) -> TracekitError:
        host = self.connection.host
        return TracekitError(f"{host} sent wrong {what}", hint=f"look at what ssh {host} prints")

    def _keep(self, cpu: str, data: bytes) -> None:
        """Add records to the file of their CPU."""
        if not cpu.isdecimal() or int(cpu) >= MOST_CPUS:
            raise self._wrong("numbers of CPUs")
        path = self.unfinished.path / f"cpu{cpu}.{self.cuts:06}"
        if self.failure is not None:
            return
        with path.open("ab") as file:
            file.write(data)
        self.arrived.record_bytes += len(data)
        if self._watch:
            self._watch.see(data)

    def _note_end(self) -> None:
        """Note in the manifest what was lost, and the disks' counters."""
        manifest, arrived, end = self.manifest, self.arrived, self._readings(self.arrived.finish)
        if self.pieces is not None:
            lost, counters = self.pieces.rest(end)
        else:
            lost = self.losses() | ({} if arrived.taken is None else {"taken": arrived.taken})
            disks = [Path(name) for name in self.names]
            counters = counters_of(disks, begin=self._readings(arrived.begin), end=end)
        manifest.recorded |= lost
        manifest.layout["counters"] = to_builtins(counters)

    def written(self, output: Path) -> Captured:
        """Write the files of what arrived."""
        manifest, arrived, host = self.manifest, self.arrived, self.connection.host
        lost_bytes = (arrived.sent_bytes or 0) - arrived.record_bytes
        if arrived.sent_bytes is None:
            why = "all that arrived is kept, what was on its way and in the kernel there is lost"
            self.failure = self.failure or f"the connection to {host} was lost: {why}"
        elif lost_bytes:
            what = f"{lost_bytes:,} of {arrived.sent_bytes:,} bytes of records did not arrive"
            self.failure = self.failure or f"{host}: {what}"
        self.failure = self.failure or arrived.failure
        self._note_end()
        with suppress(OSError):  # a full disk: what was saved at first will do
            self.unfinished.save(manifest)
        is_live = manifest.is_of_this_boot
        found = blk_tracer.recorded_in(self.unfinished.path, manifest.recorded, is_live=is_live)
        try:
            kept = self.unfinished.finish(found, manifest, output=output)
        except PartialError as error:
            said = f"{self.failure or 'recording ended'}; {error}"
            code = arrived.exit_code or PartialError.exit_code
            raise PartialError(said, hint=error.hint, exit_code=code) from None
        if self.pieces is not None:
            kept = replace(kept, lost_in_pieces=self.pieces.lost)
            self.notes += self.pieces.finish()
        return Captured(
            kept,
            self.duration_s,
            arrived.exit_code if self.options.command else None,
            self.stop.name,
            tuple(self.notes),
            manifest.summary.source,
            failure=self.failure,
        )


def _disk(name: str, lines: list[str]) -> dict[str, Any]:
    numbers, sectors, sector_bytes, rotational, *scheduler = lines
    major, _, minor = numbers.partition(":")
    return {
        "device": name,
        "major": int(major),
        "minor": int(minor),
        "size_sectors": int(sectors),
        "logical_sector_bytes": int(sector_bytes),
        "rotational": rotational == "1",
        "scheduler": scheduler[0] if scheduler else "none",
    }


def _reading(text: str) -> CountersRead | str:
    """Return a disk's counters between two times, or why they cannot be used."""
    before, after, stat, *flags = text.split("\n")
    for (_, useless, why), value in zip(USELESS, flags, strict=False):
        if value == useless:
            return why
    if not stat:
        return WHY_GONE
    reading = reading_of(stat, int(before), after_ns=int(after))
    return reading if isinstance(reading, str) else CountersRead(reading, identity=0)


def _take_facts(found: Arrived, _name: str, text: str) -> None:
    found.facts = text.splitlines()
    *_, now_ns = found.facts
    found.clock_ahead_s = int(now_ns) / 1e9 - time.monotonic()


def _take_losses(found: Arrived, _name: str, text: str) -> None:
    found.overrun, found.dropped = map(int, text.split())


def _take_cgroups(found: Arrived, _name: str, text: str) -> None:
    for line in text.splitlines():
        number, _, path = line.strip().partition(" ")
        if number.isdecimal():
            found.cgroups.setdefault(number, path.removeprefix(".") or "/")


def _take_end(found: Arrived, _name: str, text: str) -> None:
    found.overrun, found.dropped, found.taken, found.sent_bytes = map(int, text.split())


TAKE: dict[str, Callable[[Arrived, str, str], None]] = {
    "text": lambda found, name, text: found.texts.update({name: text}),
    "missing": lambda found, _, text: found.missing.append(text),
    "cgroups": _take_cgroups,
    "disk": lambda found, name, text: found.disks.update({name: text.splitlines()}),
    "facts": _take_facts,
    "begin": lambda found, name, text: found.begin.update({name: _reading(text)}),
    "finish": lambda found, name, text: found.finish.update({name: _reading(text)}),
    "losses": _take_losses,
    "error": lambda found, _, text: setattr(found, "failure", text),
    "taken": lambda found, _, text: setattr(found, "failure", text),
    "exit": lambda found, _, text: setattr(found, "exit_code", int(text)),
    "end": _take_end,
}
"""What is done with the content of a frame, by its kind."""
