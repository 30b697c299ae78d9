"""Replays while the kernel's block tracer records the devices of the targets, and joins both."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from tracekit._native.file_places import file_extents
from tracekit._native.players import Outcome, run_program
from tracekit.arrow import Integers
from tracekit.capture.layout import disks_below
from tracekit.capture.session import Captured, CaptureOptions, capture
from tracekit.errors import PartialError, TracekitError, UsageError
from tracekit.machine_state import boot_id
from tracekit.plans import block_plan
from tracekit.readers.blktrace import ParseOptions, parse
from tracekit.replay import observed
from tracekit.replay.completions import HEADER, write_completions
from tracekit.replay.observed import Place, Queued
from tracekit.replay.partial_results import PLAN, RECORDS, SUMMARY
from tracekit.replay.player import NOT_QUEUED, PlayerOptions, Schedule
from tracekit.replay.run import target_path
from tracekit.replay.summary import Observed, ReplaySummary, find_gaps, unobserved
from tracekit.stack.mounts import read_mounts

SYS_DEV = Path("/sys/dev/block")
MEMORY = Path("/dev") / "shm"
LOOK_S = 0.02
"""Between two looks at the threads of the program and the tracer's buffers."""
READS = 800
"""Requests whose places are read before the run, to measure the lead."""
LONGEST_GAP_NS = 2_000_000
COMPLETIONS = "completions.parquet"


def disk_of(number: int) -> tuple[str, int]:
    """Return the whole disk that a device number is of or in, and the first sector there.

    Raise UsageError where there is none, as below tmpfs or an overlay.
    """
    folder = (SYS_DEV / f"{os.major(number)}:{os.minor(number)}").resolve()
    if not (folder / "size").exists():
        raise UsageError(
            "--observe: a target lies on no block device, so that the kernel's tracer sees nothing",
            hint="choose a block device, such as a loop device on that file",
        )
    if (folder / "partition").exists():
        return folder.parent.name, int((folder / "start").read_text())
    return folder.name, 0


def place_of(path: Path, extents: Integers | None) -> Place:
    """Return where a target lies."""
    info = path.stat() if path.exists() else path.parent.stat()
    is_device = path.is_block_device()
    disk, first = disk_of(info.st_rdev if is_device else info.st_dev)
    cache = Path("/sys/block") / disk / "queue/write_cache"
    has_cache = not cache.exists() or cache.read_text().strip() != "write through"
    none = np.empty((0, 3), np.int64)
    pieces = None if is_device else none if extents is None else extents
    return Place(disk, first, pieces, has_cache)


def extents_of(file: int) -> Integers:
    """Return where a file lies on its file system's device, in its order and in sectors."""
    return np.array(file_extents(file, syncs=True), np.int64).reshape(-1, 3)


@dataclass
class Watched:
    """The program while it runs: its threads, and files that are gone when it has ended."""

    absent: list[Path]
    """Targets that are made for the run."""
    records: Path
    """Where its completions go."""
    made: dict[Path, int] = field(default_factory=dict)
    """Descriptors of these targets, from when the run goes on."""
    threads: set[int] = field(default_factory=set)
    pid: int = 0

    def begin(self, pid: int) -> None:
        """Note the process."""
        self.pid = pid
        self.threads.add(pid)

    def look(self) -> None:
        """Note threads that there are now; hold the made files once completions are written.

        Before that the program may still ask whether anybody else has them open.
        """
        with suppress(OSError):
            self.threads |= {int(name) for name in os.listdir(f"/proc/{self.pid}/task")}
        if len(self.made) < len(self.absent) and self._has_completions():
            for path in self.absent:
                with suppress(OSError):
                    self.made.setdefault(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def _has_completions(self) -> bool:
        part = self.records.with_name(f"{self.records.name}.{self.pid}.part")
        files = (file for file in (part, self.records) if file.exists())
        return any(file.stat().st_size > HEADER.itemsize for file in files)

    def place_of(self, path: Path) -> Place:
        """Return where a target of the run lies."""
        if path in self.made:
            return place_of(path, extents_of(self.made[path]))
        if not path.is_file():
            return place_of(path, None)
        with path.open("rb") as file:
            return place_of(path, extents_of(file.fileno()))

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in self.made.values():
            os.close(descriptor)


@contextmanager
def _repeated(call: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Call something again and again beside the block; what it raised is raised at the end."""
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.wait(pause_s):
            call()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(repeat)
        try:
            yield
        finally:
            is_over.set()
        done.result()


@dataclass(frozen=True)
class _Seen:
    """What one run of the program left, and what the tracer did."""

    rows: Queued
    places: list[Place]
    own: set[int]
    source: str
    lost_events: int


@dataclass
class Observer:
    """Watches a replay (`tracekit.replay.run.Observer`); `source` is one of `capture`."""

    source: str | None = None
    buffer_kib: int = CaptureOptions.buffer_kib
    lead_ns: int = 0
    is_measured: bool = False
    follow_late_ns: int = 0
    """How much later the program's own events are than the tracer's."""
    notes: list[str] = field(default_factory=list)
    _seen: _Seen | str = "nothing was run"
    """Of the run, or why there is nothing."""

    def run(
        self, plan: Path, summary: Path, *, player: PlayerOptions, arguments: Sequence[str]
    ) -> Outcome:
        """Run the plan while the devices of its targets are watched, first for the lead."""
        if os.geteuid() != 0:
            raise TracekitError(
                "--observe records the kernel's block events, which needs root",
                hint="run it with sudo, or leave --observe out",
            )
        if player.engine in NOT_QUEUED:
            raise UsageError(f"--observe: the {player.engine} engine queues nothing in the kernel")
        if player.schedule.lead_ns is not None:
            self.lead_ns = player.schedule.lead_ns
        elif player.schedule.is_timed:
            self._measure_lead(plan, summary.parent, player)
            arguments = [*arguments, "--lead-ns", str(self.lead_ns), "--follow-lead"]
            arguments += ["--follow-late-ns", str(self.follow_late_ns)]
        outcomes: list[Outcome] = []
        try:
            self._seen = self._watch(
                plan, summary, player=player, arguments=arguments, outcomes=outcomes
            )
        except TracekitError as error:
            # What has run is a replay, whatever became of its events.
            if not outcomes:
                raise
            self._seen = str(error)
        return outcomes[0]

    def add_to(self, summary: ReplaySummary, place: Path) -> None:
        """Join what was seen with the completions: writes `observed.parquet`, sets `observed`."""
        seen = self._seen
        summary.lead_from = "measured" if self.is_measured else "given" if self.lead_ns else "none"
        if not isinstance(seen, _Seen):
            summary.warnings.insert(0, unobserved(seen))
            return
        found = self._join(seen, summary, place / PLAN, place / COMPLETIONS)
        found.write(place / "observed.parquet")
        followed = summary.clock.lead_followed
        if followed and not followed.requests:
            self.notes.append(
                "the lead stayed as it was: the submitting thread queued nothing itself"
            )
        summary.observed = Observed(
            source=seen.source,
            devices=sorted({one.device for one in seen.places}),
            lost_events=seen.lost_events,
            lead_ns=self.lead_ns,
            boot_id=boot_id(),
            notes=self.notes,
            **found.counts,
        )
        summary.warnings = [*find_gaps(summary.observed), *summary.warnings]

    def _measure_lead(self, plan: Path, place: Path, player: PlayerOptions) -> None:
        """Read where the plan's first requests go, and take the kernel's median lag as the lead."""
        with tempfile.TemporaryDirectory(prefix="lead-", dir=place) as folder:
            there = Path(folder)
            count = write_reads(plan, there / PLAN)
            if count < observed.FEWEST:
                self.notes.append(f"the lead was not measured: the plan begins with {count} places")
                return
            options = replace(
                player,
                no_calibration=True,
                write_to=(),
                overwrite_signature=(),
                schedule=Schedule(lead="none"),
            )
            words = [*options.words(), "--follow-lead", "--completions", str(there / RECORDS)]
            ran: list[Outcome] = []
            seen = self._watch(
                there / PLAN, there / SUMMARY, player=options, arguments=words, outcomes=ran
            )
            summary = msgspec.convert(ran[0].summary, ReplaySummary)
            if summary.outcome == "interrupted":
                raise PartialError("stopped while the lead was measured: nothing was replayed")
            write_completions(there / RECORDS, there / COMPLETIONS, is_timed=True)
            found = self._join(seen, summary, there / PLAN, there / COMPLETIONS)
        lead_ns = observed.lead_of(found.counts["queue_lag_ns"])
        if seen.lost_events or lead_ns is None:
            self.notes.append("the lead was not measured: the tracer did not see the reads for it")
        else:
            self.lead_ns, self.is_measured = lead_ns, True
            # The program's own events come behind those of the tracer: by as much it was early.
            self.follow_late_ns = min(max(-found.counts["queue_error_ns"].p50, 0), lead_ns)

    def _join(
        self, seen: _Seen, summary: ReplaySummary, plan: Path, completions: Path
    ) -> observed.Found:
        asked = observed.read_asked(plan, completions, summary=summary)
        return observed.find(asked, seen.rows, places=seen.places, own=seen.own, summary=summary)

    def _watch(
        self,
        plan: Path,
        summary: Path,
        *,
        player: PlayerOptions,
        arguments: Sequence[str],
        outcomes: list[Outcome],
    ) -> _Seen:
        """Run the program under the tracer, whose outcome is added, and decode the events."""
        paths = [target_path(target) for target in player.target]
        records = summary.parent / RECORDS
        disks = sorted({place_of(path, None).device for path in paths})
        watched = Watched([path for path in paths if not path.exists()], records)

        def work(drain: Callable[[], None]) -> None:
            def each() -> None:
                drain()
                watched.look()

            with _repeated(each, LOOK_S):
                outcomes.append(
                    run_program(plan, summary, arguments=arguments, on_start=watched.begin)
                )

        options = CaptureOptions(source=self.source, buffer_kib=self.buffer_kib, work=work)
        with _scratch(summary.parent, disks) as scratch, closing(watched):
            devices = [f"/dev/{disk}" for disk in disks]
            captured = capture(devices, scratch / "events", options=options)
            if captured.failure:
                raise TracekitError(captured.failure)
            ran = outcomes[0].summary
            places = [watched.place_of(Path(one["path"])) for one in ran["targets"]]
            rows, lost = _decode(scratch, captured, ran["clock"]["start_ns"])
        return _Seen(rows, places, watched.threads, captured.source, lost)


def _decode(scratch: Path, captured: Captured, start_ns: int) -> tuple[Queued, int]:
    """Return what the kernel queued, in times of the run, and how many events are lost."""
    options = ParseOptions(keeps_refused=True)
    trace, _ = parse([scratch / "events"], scratch / "trace", options=options)
    kept, loss = captured.kept, trace.info.loss
    base_ns = trace.info.clock.base_ns or 0
    rows = Queued.read(trace.table("requests"), from_ns=base_ns - start_ns)
    lost = max(kept.dropped + kept.overrun, loss.lost_records) + kept.missed_at_most
    return rows, lost


@contextmanager
def _scratch(near: Path, disks: Sequence[str]) -> Iterator[Path]:
    """Yield a folder for the tracer's files, in memory where its disk is one of those watched."""
    is_watched = not disks_below(near, read_mounts()).isdisjoint(disks)
    folder = MEMORY if is_watched and MEMORY.is_dir() else near
    with tempfile.TemporaryDirectory(prefix="tracekit-events-", dir=folder) as made:
        yield Path(made)


def write_reads(plan: Path, output: Path) -> int:
    """Write a plan of reads where the first requests of a plan go; return how many."""
    rows = block_plan.map_records(plan)[: READS * 4]
    moves_data = np.isin(rows["operation"], (block_plan.READ, block_plan.WRITE))
    reads = np.array(rows[moves_data][:READS])
    if not len(reads):
        return 0
    reads["operation"], reads["flags"], reads["after"], reads["think_ns"] = block_plan.READ, 0, 0, 0
    reads["request_id"] = np.arange(len(reads))
    gaps = np.minimum(np.diff(reads["intended_ns"].astype(np.int64), prepend=0), LONGEST_GAP_NS)
    gaps[0] = 0
    reads["intended_ns"] = np.cumsum(gaps)
    targets = block_plan.map_targets(plan)
    tables = block_plan.Tables(
        tuple(label.decode() for label in targets["label"]),
        tuple(targets["needed_bytes"].tolist()),
        (),
        bytes(32),
        block_plan.LEVELS[0],
    )
    with block_plan.open_new(output) as file:
        writer = block_plan.FinalPlanWriter(file, tables)
        writer.append(reads)
        writer.close()
    return len(reads)
