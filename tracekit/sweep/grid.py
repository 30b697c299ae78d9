"""Which runs a sweep has: personalities, their parameters, targets and repeats."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from tracekit.choices import CacheState, check_choice
from tracekit.errors import UsageError
from tracekit.lab.machine import Disk, dax_start_mib, parse_disks
from tracekit.metadata import Record
from tracekit.plans.file_plan import Medium
from tracekit.sweep.slow_memories import KINDS, parse_memory
from tracekit.units import MIB, parse_duration, parse_size
from tracekit.workload.flow import Personality
from tracekit.workload.personality import open_personality
from tracekit.workload.requests import SEED_MOST

MOUNTS = Path("/proc/self/mountinfo")
MEMORY_FILE_SYSTEMS = frozenset(("tmpfs", "ramfs"))
ALWAYS = frozenset(("dax", "dax=always"))
GET_ATTRIBUTES = 0x801C581F  # FS_IOC_FSGETXATTR of <linux/fs.h>
ATTRIBUTES = struct.Struct("=5I8x")
DAX_FLAG = 0x8000  # FS_XFLAG_DAX, which new files of a directory inherit


def is_dax(directory: Path, *, mounts: Path = MOUNTS) -> bool:
    """Return whether new files of a directory are used by DAX: by the mount, or by its own flag."""
    options = [words[-1].split(",") for words in _mounts(directory, mounts)]
    return not all(map(ALWAYS.isdisjoint, options)) or has_flag(directory)


def is_memory(directory: Path, *, mounts: Path = MOUNTS) -> bool:
    """Return whether files of a directory are in memory alone; then no device is written to."""
    return file_system(directory, mounts=mounts) in MEMORY_FILE_SYSTEMS


def file_system(directory: Path, *, mounts: Path = MOUNTS) -> str:
    """Return the name of a directory's file system, such as ext4."""
    return next((words[-3] for words in _mounts(directory, mounts)), "an unknown file system")


class Place(Record):
    """Where a run was, as the kernel shows it."""

    file_system: str | None = None
    source: str | None = None
    mount_options: str | None = None
    """Of the mount, then of the file system."""
    scheduler: str | None = None
    """Of the disk's requests."""


def place_of(directory: Path, *, mounts: Path = MOUNTS, sys: Path = Path("/sys")) -> Place:
    """Return how a directory is mounted, and how its disk orders requests."""
    words = next(_mounts(directory, mounts), None)
    if words is None:
        return Place()
    disk = sys / "dev/block" / words[2]
    queue = next((q for q in (disk / "queue", disk / "../queue") if q.exists()), None)
    chosen = None
    with suppress(OSError):
        text = (queue / "scheduler").read_text() if queue else ""
        chosen = text.partition("[")[2].partition("]")[0] or None
    return Place(words[-3], words[-2], f"{words[5]},{words[-1]}", chosen)


def _mounts(directory: Path, mounts: Path) -> Iterator[list[str]]:
    """Yield the lines of a directory's file system, which end in its name, source and options."""
    device = os.stat(directory).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.read_text(errors="surrogateescape").splitlines():
        words = line.split(" ")
        if words[2] == number:
            yield words


def has_flag(directory: Path) -> bool:
    """Say whether a directory hands the flag for DAX down; False where there are no such flags."""
    attributes = bytearray(ATTRIBUTES.size)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, GET_ATTRIBUTES, attributes)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(ATTRIBUTES.unpack(attributes)[0] & DAX_FLAG)


LAB = "lab:"
MEMORY = "memory:"
MEMORY_HINT = (
    "memory:/dev/shm/NAME, memory:/dev/shm/NAME:optane-pmem-100, or with times of 64 bytes"
    " memory:/dev/shm/NAME:100ns:450ns"
)
LAB_HINT = "lab:dax=1GiB, lab:pmem=1GiB, lab:fs=1GiB or lab:fs=1GiB:5ms:1"
MEMORY_MIB = 1024
"""Of a guest, the page cache of its file system included."""


@dataclass(frozen=True)
class Guest:
    """A guest with one ext4: on a disk, or on persistent memory with or without DAX."""

    disk: Disk | None
    memory_mib: int
    """Of persistent memory; 0 when it is a disk."""
    is_dax: bool
    is_exact: bool
    medium: Medium | None = field(default=None, repr=False)
    """The slower memory that reads and writes by DAX wait for. Not in `repr`, which names runs."""


@dataclass(frozen=True)
class Memory:
    """A directory of this machine's memory: of real DAX, or standing for it."""

    stands_for_dax: bool
    medium: Medium | None = None


@dataclass(frozen=True)
class Target:
    """A directory and the name that it has in tables; with a guest, a directory in there."""

    name: str
    directory: Path
    guest: Guest | None = None
    memory: Memory | None = None
    """That its files are, as persistent memory is used by DAX."""

    @property
    def is_dax(self) -> bool:
        """Say whether its files are persistent memory itself, without the page cache."""
        if self.guest:
            return self.guest.is_dax
        return self.memory is not None or is_dax(self.directory)

    @property
    def medium(self) -> Medium | None:
        """Return the slower memory that reads and writes wait for; None: this machine's."""
        of = self.guest or self.memory
        return of.medium if of else None


def split_targets(texts: Sequence[str], *, is_exact: bool = False) -> tuple[Target, ...]:
    """Return the targets of [NAME=]DIRECTORY or [NAME=]lab:KIND=SIZE; `is_exact`: of guests.

    Raise UsageError for two of a name, and for what is no target.
    """
    found = tuple(_target(text, is_exact=is_exact) for text in texts)
    if len({target.name for target in found}) < len(found):
        raise UsageError("--target: two targets have the same name", hint="NAME=DIRECTORY")
    if is_exact and not any(target.guest for target in found):
        raise UsageError("--exact: no target is in the lab", hint=LAB_HINT)
    return found


def _bad(text: str, reason: str, hint: str = LAB_HINT) -> UsageError:
    return UsageError(f"--target {text}: {reason}", hint=hint)


def _target(text: str, *, is_exact: bool) -> Target:
    name, equals, path = text.partition("=")
    if not equals or "/" in name or name.startswith((LAB, MEMORY)):
        name, path = text, text
    if not name or not name.isprintable():
        raise _bad(text, "a target needs a name", "NAME=DIRECTORY")
    if path.startswith(LAB):
        return Target(name, Path(path), _guest(path.removeprefix(LAB), is_exact=is_exact))
    if path.startswith(MEMORY):
        return _memory_target(name, path.removeprefix(MEMORY), text)
    return Target(name, _directory(Path(path), text))


def _directory(directory: Path, text: str) -> Path:
    if not directory.is_dir():
        reason = "is no directory" if directory.exists() else "does not exist"
        hint = f"make it (mkdir -p), name another one, or a file system of a guest: {LAB_HINT}"
        raise _bad(text, f"{directory} {reason}", hint)
    return directory


def _memory_target(name: str, path: str, text: str) -> Target:
    delays: list[str] = []
    if not Path(path).is_dir():
        path, *delays = path.rsplit(":", 1 if Path(path.rpartition(":")[0]).is_dir() else 2)
    directory = _directory(Path(path), text)
    if len(delays) == 1 and delays[0] not in KINDS:
        reason = f"'{delays[0]}' is no kind of memory: {', '.join(KINDS)}, or two times"
        raise _bad(text, reason, MEMORY_HINT)
    has_dax = is_dax(directory)
    if not (has_dax or is_memory(directory)):
        reason = f"{directory} is on {file_system(directory)}, which is no memory"
        raise _bad(text, reason, MEMORY_HINT)
    return Target(name, directory, memory=Memory(not has_dax, parse_memory(delays)))


def _guest(text: str, *, is_exact: bool) -> Guest:
    kind, _, size = text.partition("=")
    if kind == "fs":
        return Guest(_disk(text), 0, is_dax=False, is_exact=is_exact)
    if kind not in ("dax", "pmem"):
        raise _bad(f"{LAB}{text}", "there is no such thing")
    size, *delays = size.split(":")
    is_known = len(delays) == 2 or (len(delays) == 1 and delays[0] in KINDS)
    if delays and (kind != "dax" or not is_known):
        raise _bad(
            f"{LAB}{text}",
            f"only DAX has a kind of memory: {', '.join(KINDS)}, or two times",
            "lab:dax=1GiB:optane-pmem-100, lab:dax=1GiB:100ns:450ns",
        )
    memory_mib = parse_size(size, option="--target") // MIB
    if memory_mib < 1:
        raise _bad(f"{LAB}{text}", "less than a MiB")
    dax_start_mib(memory_mib, MEMORY_MIB)
    medium = parse_memory(delays)
    return Guest(None, memory_mib, is_dax=kind == "dax", is_exact=is_exact, medium=medium)


def _disk(text: str) -> Disk:
    try:
        return parse_disks([text])[0]
    except UsageError as error:
        reason = str(error).removeprefix("--disk: ")
        raise _bad(f"{LAB}{text}", reason, error.hint or LAB_HINT) from None


@dataclass(frozen=True)
class Timing:
    """How each run goes, in ns: measured time, time before it, and what becomes of caches."""

    duration_ns: int = 60 * 10**9
    warm_up_ns: int = 0
    cache: str = "sync"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check what the program would refuse later."""
        check_choice(self.cache, CacheState, option="--cache")
        if self.duration_ns <= 0:
            raise UsageError("--duration: must be above 0")
        if not 0 <= self.seed <= SEED_MOST:
            raise UsageError(f"--seed {self.seed}: not a number from 0 to 2^63 - 1")


MOST_REPEATS = 100


@dataclass(frozen=True)
class Until:
    """How many repeats a point gets: `least`, and more until its interval is narrow."""

    precision: float
    """Half of the 95 % interval of a point's rate, of the rate, at most."""
    least: int
    most: int


def asked_until(text: str, least: int) -> Until | None:
    """Return the rule of `--until precision=5%[,repeats=100]`; None for an empty text.

    `least` is what `--repeat` asks for; raises UsageError for less than 1.
    """
    if least < 1:
        raise UsageError("--repeat: must be at least 1")
    if not text:
        return None
    found = re.fullmatch(r"precision=(\d+(?:\.\d+)?)%(?:,repeats=(\d+))?", text)
    if not found or not 0 < float(found[1]) < 100:
        raise UsageError(
            f"--until {text}: not precision=N%",
            hint="such as precision=5%, or precision=5%,repeats=50 for at most 50",
        )
    most = int(found[2] or MOST_REPEATS)
    if most < least:
        raise UsageError(f"--until {text}: fewer repeats than the {least} of --repeat")
    return Until(float(found[1]) / 100, least, most)


@dataclass(frozen=True)
class Run:
    """One run: a personality with all parameters, where, and which repeat."""

    personality: Personality
    source: str
    target: Target
    timing: Timing
    number: int
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """Return the seed of its plan: each repeat has one of its own."""
        return self.timing.seed + self.number - 1

    @property
    def before(self) -> Run:
        """Return the repeat before it."""
        return replace(self, number=self.number - 1)

    @property
    def run_id(self) -> str:
        """Return what names the run: the same for the same settings, target and number."""
        identity = {
            "personality": self.personality.name,
            "flow": repr((self.personality.groups, self.personality.file_sets)),
            "threads": self.personality.threads,
            "target": self.target.name,
            "timing": vars(self.timing) | {"seed": self.seed},
        }
        if self.target.guest:
            identity["guest"] = repr(self.target.guest)
        if self.target.memory:
            identity["memory"] = True
        if self.target.medium:
            identity["medium"] = vars(self.target.medium)
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        return f"{self.personality.name}-{digest[:12]}-{self.number}"


def asked_timing(duration: str | None, warm_up: str, *, cache: str, seed: int) -> Timing:
    """Return the timing of options as people write them, such as 60s, also of no duration."""
    warm_up_ns = 0 if warm_up in ("0", "0s") else parse_duration(warm_up, option="--warm-up")
    lasts = "60s" if duration is None else duration
    return Timing(parse_duration(lasts, option="--duration"), warm_up_ns, cache, seed)


def _as_said(timing: Timing, personality: Personality) -> Timing:
    """Return the timing of a run that lasts as its personality says."""
    by_itself = 60 if personality.end == "timeout" else 3600
    return replace(timing, duration_ns=(personality.seconds or by_itself) * 10**9)


@dataclass(frozen=True)
class Axis:
    """The values of a parameter, and the option that gave them, as the user wrote it."""

    values: tuple[str, ...]
    option: str


def asked_axes(named: Mapping[str, str], texts: Sequence[str], *, option: str) -> dict[str, Axis]:
    """Return the axes by parameter: of options of their own, and KEY=V1,V2,... of `option`.

    An empty text of `named` is an option that was not given. Raise UsageError for what is no list
    of values, and for a parameter or a value that comes twice.
    """
    found: dict[str, Axis] = {}
    given = [(key, f"--{key.replace('_', '-')}", text) for key, text in named.items() if text]
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise UsageError(f"{option} {text}: not KEY=VALUE", hint="such as mean_size=4KiB,16KiB")
        given.append((key, f"{option} {key}", values))
    for key, word, text in given:
        if key in found:
            raise UsageError(f"{word}: {found[key].option} gives its values already")
        found[key] = Axis(_split(text, word), word)
    return found


def _split(text: str, option: str) -> tuple[str, ...]:
    values = tuple(part.strip() for part in text.split(","))
    if "" in values:
        raise UsageError(f"{option} {text}: a value is missing", hint="write them as 1,2,4")
    if len(set(values)) < len(values):
        raise UsageError(f"{option} {text}: a value comes twice", hint="--repeat repeats")
    return values


def plan_runs(
    names: Sequence[str],
    targets: Sequence[Target],
    *,
    vary: Mapping[str, Axis],
    timing: Timing,
    repeats: int,
    lasts_as_said: bool = False,
) -> list[Run]:
    """Return all runs in the order in which to do them, which the seed alone chooses.

    All settings come once in a repeat, in random order, and the targets of each one after the
    other, in random order, too: what drifts on the machine is in no setting more than in others.

    With `lasts_as_said` each run lasts as its personality says with its parameters, else 60 s, or
    1 h where threads end it. Each personality takes the parameters of `vary` that it has; raises
    UsageError for one that none has.
    """
    if timing.seed + repeats - 1 > SEED_MOST:
        raise UsageError(f"--seed {timing.seed}: no other seeds above it for {repeats} repeats")
    points = [
        (open_personality(name, settings, given_by=_options(vary)), name, settings)
        for name in names
        for settings in _settings(name, vary)
    ]
    runs = []
    for number in range(1, repeats + 1):
        order = np.random.default_rng((timing.seed, number))
        for personality, name, settings in (points[p] for p in order.permutation(len(points))):
            for place in order.permutation(len(targets)):
                own = _as_said(timing, personality) if lasts_as_said else timing
                runs.append(Run(personality, name, targets[place], own, number, settings))
    _check_known(vary, runs)
    return runs


def _check_known(vary: Mapping[str, Axis], runs: Sequence[Run]) -> None:
    """Raise UsageError for a parameter that no personality has."""
    for key, axis in vary.items():
        known = list(dict.fromkeys(name for run in runs for name in run.personality.parameters))
        if key not in known and not any(key in run.settings for run in runs):
            close = get_close_matches(key, known, n=1)
            raise UsageError(
                f"{axis.option}: no personality has the parameter '{key}'",
                hint=f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}",
            )


def _options(vary: Mapping[str, Axis]) -> dict[str, str]:
    """Return by parameter the option that gives it, also where one option gives two."""
    options = {key: axis.option for key, axis in vary.items()}
    return {"append_size": vary["io_size"].option, **options} if "io_size" in vary else options


def _settings(name: str, vary: Mapping[str, Axis]) -> Iterator[dict[str, str]]:
    known = open_personality(name, {}).parameters
    keys = [key for key in vary if key in known]
    for values in itertools.product(*(vary[key].values for key in keys)):
        chosen = dict(zip(keys, values, strict=True))
        if "io_size" in chosen and "append_size" in known:
            chosen.setdefault("append_size", chosen["io_size"])
        yield chosen
