"""What a killed capture left: its records, in a folder and in the kernel, and kernel settings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import to_builtins

from tracekit.capture import blk_tracer, blktrace, bpf, programs
from tracekit.capture.disk_counters import CountersRead, counters_of, read_all
from tracekit.capture.files import finish_files
from tracekit.capture.kernel_state import (
    STATE_FOLDER,
    Settings,
    TracerInUseError,
    dead_scripts,
    tracer_lock,
)
from tracekit.capture.names import look_after
from tracekit.capture.pieces import begin_of_rest
from tracekit.capture.recording import NothingRecordedError
from tracekit.capture.tracefs import mounted_folder
from tracekit.capture.unfinished import (
    MANIFEST,
    SUFFIX,
    InUseError,
    Manifest,
    Unfinished,
    Written,
    free_name,
    in_use,
    left_over,
    name_for,
    opened_unfinished,
    remove_blank,
)
from tracekit.errors import InputError, TracekitError, UsageError, foreign_error
from tracekit.layout import DiskCounters
from tracekit.locks import holders_of

WHY_KILLED = "the capture was killed"
GAVE_BACK = "gave back the kernel settings of a capture that was killed"
GAVE_BACK_REMOTE = "gave back the kernel settings of a capture of this host by ssh that was killed"

IN_FOLDER: dict[str, Callable[[Path], Written]] = {
    programs.Perf.name: programs.Perf.recorded_in,
}


def recorded_in(folder: Path, manifest: Manifest) -> Written:
    """Return what a source recorded in a folder, however it ended."""
    source = manifest.summary.source
    is_live = manifest.is_of_this_boot
    if source == blk_tracer.BlkTracer.name:
        return blk_tracer.recorded_in(folder, manifest.recorded, is_live=is_live)
    if source == blktrace.Blktrace.name:
        return blktrace.recorded_in(folder, is_live=is_live)
    if source == bpf.Bpf.name:
        return bpf.recorded_in(folder, manifest.recorded, is_live=is_live)
    if source not in IN_FOLDER:
        raise InputError(
            f"{folder}: {source} recorded it, which this version cannot finish",
            hint="finish it with the version that captured it, or remove the folder",
        )
    return IN_FOLDER[source](folder)


@dataclass(frozen=True)
class Recovered:
    """A capture that was finished later."""

    output: Path
    kept: str
    """How much, and what is lost of it."""
    notes: tuple[str, ...] = ()
    """What there is to say besides."""

    def __str__(self) -> str:
        """Say what it is."""
        return f"recovered {self.kept}: {self.output}"


@contextmanager
def only_capture(
    tracefs: Path, state_folder: Path, *, output: Path | None = None
) -> Iterator[tuple[Settings, list[str]]]:
    """Hold the capture lock; yield fresh settings, and what was done about a killed capture.

    What that recorded is finished under its own name, or another if that is `output`. Raise
    TracekitError when another capture runs. The settings are given back on leaving.
    """
    with tracer_lock(tracefs, state_folder) as state:
        notes = _clean_up(state, output)
        settings = Settings(state)
        try:
            yield settings, notes
        finally:
            settings.restore()


@contextmanager
def beside_captures(tracefs: Path, output: Path) -> Iterator[tuple[Settings, list[str]]]:
    """Yield settings that none may be changed of, and what was done about killed captures.

    Others may run: without the kernel's tracer they do not disturb each other.
    """
    found: list[str] = []
    with (
        suppress(TracerInUseError),
        only_capture(tracefs, STATE_FOLDER, output=output) as (_, notes),
    ):
        found = notes
    yield Settings(None), found + salvage(output)


def _clean_up(state: Path, output: Path | None) -> list[str]:
    """Salvage what a killed capture left; return what there is to say about it."""
    notes, left = _release(state)
    for folder in dict.fromkeys([*([left] if left is not None else []), *_killed_beside()]):
        try:
            done = finish(folder, taken=output)
            notes += [str(done), *done.notes]
        except NothingRecordedError as error:
            notes.append(f"{folder}: {error}")
        except (OSError, TracekitError) as error:
            notes.append(f"its records are kept in {folder}: {error}")
    return notes


def _killed_beside() -> list[Path]:
    """Return what captures left that no state file names, killed before they had ended."""
    return [
        folder
        for folder, manifest in left_over()
        if manifest.summary.source == bpf.Bpf.name
        and manifest.files is None
        and manifest.is_of_this_boot
        and "counters" not in manifest.layout
    ]


def _release(state: Path) -> tuple[list[str], Path | None]:
    """Take what killed captures left in the kernel, and give back what they changed.

    Return what there is to say, and the folder with the records of the one of this machine.
    """
    notes, folder = _release_own(state)
    for script in dead_scripts():
        settings = Settings(state)
        settings.take_over(script)
        notes += [GAVE_BACK_REMOTE, *_restored(settings, state)]
        shutil.rmtree(script)
    return notes, folder


def _release_own(state: Path) -> tuple[list[str], Path | None]:
    try:
        dead = Settings.of_dead_capture(state)
    except InputError as error:
        state.unlink()
        return [f"what a killed capture left changed is lost: {error}; {error.hint}"], None
    if dead is None:
        return [], None
    notes = [GAVE_BACK]
    folder = dead.left
    if folder is not None and (folder / MANIFEST).exists():
        try:
            with opened_unfinished(folder) as left:
                _take_rest(left, dead)
        except (OSError, TracekitError) as error:
            notes.append(f"what was left in the kernel's buffers is lost: {error}")
    elif folder is not None:  # nothing was recorded
        shutil.rmtree(folder, ignore_errors=True)
        folder = None
    return notes + _restored(dead, state), folder


def _restored(settings: Settings, state: Path) -> list[str]:
    """Give settings back; return what there is to say of those that could not be."""
    try:
        settings.restore()
    except TracekitError as error:
        # It was tried twice by now: what the kernel does not take must not stop every capture.
        state.unlink()
        return [f"except these, set them by hand: {error}"]
    return []


def _take_rest(left: Unfinished, dead: Settings) -> None:
    """Take what is left in the kernel's buffers, which is still being recorded."""
    manifest = left.read()
    disks = [Path("/sys/block") / name for name in manifest.disks]
    counters = [DiskCounters(device=disk.name, why_not=WHY_KILLED) for disk in disks]
    if manifest.summary.source == blk_tracer.BlkTracer.name and manifest.is_of_this_boot:
        begin_of_rest(left.path, manifest)
        begin = msgspec.convert(manifest.recorded.pop("begin", []), list[CountersRead | str])
        end = read_all(disks)  # before recording ends: requests may go on
        facts = blk_tracer.BlkTracer.rest_of(
            left.path, facts=manifest.recorded, disks=disks, settings=dead
        )
        manifest.recorded = facts
        if len(begin) == len(disks):
            counters = counters_of(disks, begin=begin, end=end)
    manifest.layout["counters"] = to_builtins(counters)
    left.save(manifest)


def finish(folder: Path, *, output: Path | None = None, taken: Path | None = None) -> Recovered:
    """Write the files of a capture that ended somehow; its name is free and not `taken`."""
    with opened_unfinished(folder) as left:
        manifest = left.read()
        name = output or folder.with_name(folder.name.removesuffix(SUFFIX))
        target = output or free_name(name, taken=taken.absolute() if taken else None)
        if manifest.files is not None:
            kept_files = finish_files(left, target, manifest=manifest, work=manifest.files)
            return Recovered(target, kept_files)
        if "counters" not in manifest.layout:  # of another host, or of an earlier boot
            begin_of_rest(left.path, manifest)
        notes = look_after(left.path, manifest)
        with suppress(OSError):  # a full disk: they are looked for again the next time
            left.save(manifest)
        kept = left.finish(recorded_in(folder, manifest), manifest, output=target)
    lost = kept.overrun + kept.dropped
    return Recovered(target, f"{kept.records:,} records, {lost:,} lost", tuple(notes))


def salvage(output: Path) -> list[str]:
    """Finish what a killed capture of this name left, under another; return what there is to say.

    Raise UsageError where that is not over.
    """
    folder = name_for(output)
    if not folder.is_dir() or remove_blank(folder):
        return []
    try:
        return [str(finish(folder, taken=output))]
    except NothingRecordedError:
        return []


def recover(
    folders: Sequence[Path], output: Path | None = None
) -> tuple[list[Recovered], list[str], list[TracekitError]]:
    """Give back what killed captures left in the kernel, and finish captures that were not.

    Without `folders`, all that captures on this machine left. Return also what there is to say, and
    why some could not be finished, which keep what they have.
    """
    notes, folder = give_back_settings()
    if not folders:
        notes += [f"{path}: another process records or finishes it" for path in in_use()]
    left = [] if folders else [path for path, _ in left_over() if path != folder]
    chosen = [*folders] or [*([folder] if folder is not None else []), *left]
    if output is not None and len(chosen) != 1:
        raise UsageError(f"--output is for one capture, not {len(chosen)}", hint="name the folder")
    found: list[Recovered] = []
    failures: list[TracekitError] = []
    for folder in chosen:
        try:
            found.append(finish(folder, output=output))
            notes += found[-1].notes
        except NothingRecordedError as error:
            notes.append(f"{folder}: {error}")
        except InUseError as error:
            if folder in left:
                notes.append(f"{folder}: another process finishes it")
            else:
                failures.append(error)
        except OSError as error:
            failures.append(foreign_error(error) or TracekitError(str(error)))
        except TracekitError as error:
            failures.append(error)
    return found, notes, failures


def give_back_settings() -> tuple[list[str], Path | None]:
    """Give back what killed captures changed in the kernel, where this user may.

    Return what there is to say, and the folder with the records of one of this machine.
    """
    tracefs = mounted_folder()
    if tracefs is None or os.geteuid() != 0 or running() is not None:
        return [], None
    with suppress(TracerInUseError), tracer_lock(tracefs, STATE_FOLDER) as state:
        return _release(state)
    return [], None  # another host records this one


def running() -> int | None:
    """Return the process of the capture that runs, or None; no lock is taken for that.

    A later process may have the number of one that was killed, but not its lock.
    """
    tracefs = mounted_folder()
    try:
        pid = int((STATE_FOLDER / "pid").read_text())
        return pid if tracefs is not None and pid in holders_of(tracefs.stat()) else None
    except (OSError, ValueError):
        return None


def settings_left() -> list[str]:
    """Return the kernel settings that killed captures left changed."""
    if running() is not None:
        return []
    state = STATE_FOLDER / "state.json"
    dead = Settings.of_dead_capture(state) or Settings(state)
    for script in dead_scripts():
        dead.take_over(script)
    return dead.shown
