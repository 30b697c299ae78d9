"""Device profiles, built in or a user's own, and the seek curve of a disk."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import Cost, Disk
from tracekit.errors import InputError, UsageError
from tracekit.toml_files import Place, check_keys, load_toml
from tracekit.units import BLOCK_BYTES, GB, MIB, PS_PER_US, SECTOR_BYTES


@dataclass(frozen=True)
class SeekCurve:
    """Seek time in us over the distance x, a share of the full stroke above 0.

    track_us + root_us * sqrt(x) + linear_us * x
    """

    track_us: float
    root_us: float
    linear_us: float

    @property
    def is_rising(self) -> bool:
        """Whether a longer seek never takes less time."""
        return self.root_us >= 0 and self.root_us / 2 + self.linear_us >= 0


def seek_curve(disk: Profile) -> SeekCurve:
    """Fit the curve to track-to-track, average and full-stroke seek (Lee & Katz, SIGMETRICS 1993).

    The distance of two places chosen at random has the density 2(1 - x), so that the mean of
    sqrt(x) is 8/15 and that of x 1/3. With the seek of no distance t, of the full stroke f and on
    average a, the two equations root + linear = f - t and 8/15 root + 1/3 linear = a - t give
    root = (15 a - 10 t - 5 f) / 3 and linear = (7 t - 15 a + 8 f) / 3.
    """
    track, average, full = disk.seek_track_us, disk.seek_average_us, disk.seek_full_us
    if track is None or average is None or full is None:
        raise ValueError("the device has no head that moves")
    root_us = (15 * average - 10 * track - 5 * full) / 3
    linear_us = (7 * track - 15 * average + 8 * full) / 3
    return SeekCurve(track, root_us, linear_us)


_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
BUILT_IN = Path(__file__).with_name("profiles.toml")


Quantiles = tuple[tuple[float, float], ...]
"""A distribution: probabilities from 0 to 1 with their times; the logarithm of the time is a
straight line between two of them."""


def mean_of(quantiles: Iterable[tuple[float, float]]) -> float:
    """Return the mean of a distribution: of each line (b - a) / ln(b / a)."""
    return sum(
        (end - start) * (b if a == b else (b - a) / math.log(b / a))
        for (start, a), (end, b) in pairwise(quantiles)
    )


@dataclass(frozen=True)
class LatencyCell:
    """How long requests took at one operation, length, depth and share of writes."""

    operation: str
    length_bytes: int
    depth: int
    write_ratio: float
    requests: int
    quantiles_us: Quantiles

    @property
    def place(self) -> tuple[str, int, int, float]:
        """What tells one cell from another."""
        return self.operation, self.length_bytes, self.depth, self.write_ratio


Repeat = tuple[tuple[str, float], ...]
"""Keys of a profile with what one of several measurements of the device found."""


@dataclass(frozen=True)
class Profile:
    """One device: microseconds, MiB/s, relative price. The latencies are of a 4 KiB request."""

    name: str
    about: str
    read_latency_us: float
    write_latency_us: float
    read_mib_s: float
    write_mib_s: float
    flush_us: float
    fua_us: float
    price_per_gb: float
    sequential_setup_us: float | None = None
    empty_flush_us: float | None = None  # of a flush that finds nothing written; None: as flush_us
    parallelism: float | None = None  # requests served at once; None: one
    rpm: float | None = None  # this and the rest: a disk whose head moves; all or none
    seek_track_us: float | None = None
    seek_average_us: float | None = None
    seek_full_us: float | None = None
    capacity_gb: float | None = None
    write_settle_us: float | None = None  # may be left out
    endurance_cycles: float | None = None  # writes that a cell bears; None: not known
    read_quantiles_us: Quantiles | None = None  # of the latencies above; None: they are constant
    write_quantiles_us: Quantiles | None = None
    distributions: tuple[LatencyCell, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    tbw: float | None = None  # TB (10^12 bytes) that may be written within the warranty
    dwpd: float | None = None  # the same, as writes of the whole device a day
    warranty_years: float | None = None
    price_usd_per_gb: float | None = None
    price_date: str | None = None
    power_loss_protection: bool | None = None  # None: not known
    volatile: bool | None = None  # true: a power cut loses all that is on it
    date: str | None = None  # since when it is sold
    sources: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()  # keys whose value none of the sources gives

    def assumes(self, keys: Iterable[str]) -> bool:
        """Whether one of these figures is assumed."""
        return not {*keys}.isdisjoint(self.assumed)

    @property
    def rated_cycles(self) -> float | None:
        """How often the whole device may be written within its warranty; None: not stated."""
        if self.dwpd is not None and self.warranty_years is not None:
            return self.dwpd * DAYS_OF_RATING * self.warranty_years
        if self.tbw is not None and self.capacity_gb is not None:
            return self.tbw * 1000 / self.capacity_gb
        return None

    @property
    def measured(self) -> tuple[Profile, ...]:
        """The device as each of its measurements found it; none where it was measured once."""
        found: list[dict[str, Any]] = [dict(one) for one in self.repeats]
        return tuple(replace(self, **one, repeats=()) for one in found)

    def slowed(self, ratio: float) -> Profile:
        """Return a device on which every request takes so many times as long."""
        values = {key: getattr(self, key) for key in REPEATED if getattr(self, key) is not None}
        slower = {key: one * ratio for key, one in values.items() if key.endswith("_us")}
        rates = {key: one / ratio for key, one in values.items() if key.endswith("_mib_s")}
        return replace(self, **slower, **rates, repeats=())

    @property
    def has_head(self) -> bool:
        """Whether positioning depends on the distance, as the disk's keys describe."""
        return self.rpm is not None

    @property
    def read_setup_us(self) -> float:
        """Fixed cost of a read: its 4 KiB latency less the transfer of 4 KiB."""
        return self.read_latency_us - transfer_us(self.read_mib_s)

    @property
    def write_setup_us(self) -> float:
        """Fixed cost of a write: its 4 KiB latency less the transfer of 4 KiB."""
        return self.write_latency_us - transfer_us(self.write_mib_s)

    def setup_quantiles_us(self, operation: str) -> Quantiles | None:
        """Return the distribution of a setup, of which the setup that is constant is the mean.

        That of the latency gives its form, less the transfer as the setup itself.
        """
        given: Quantiles | None = getattr(self, f"{operation}_quantiles_us")
        setup_us = float(getattr(self, f"{operation}_setup_us"))
        if given is None or setup_us <= 0:
            return None
        page_us = transfer_us(getattr(self, f"{operation}_mib_s"))
        setups = tuple((p, max(us - page_us, LEAST_SETUP_US)) for p, us in given)
        factor = setup_us / mean_of(setups)
        return tuple((p, us * factor) for p, us in setups)


LEAST_SETUP_US = 0.001
DAYS_OF_RATING = 365
"""Of a year in TBW = DWPD x 365 x years x capacity, as data sheets compute one from the other."""
HEAD = ("rpm", "seek_track_us", "seek_average_us", "seek_full_us")
DISK = (*HEAD, "capacity_gb")
REQUIRED = tuple(field.name for field in fields(Profile)[2:] if field.default is MISSING)
KNOWN = tuple(field.name for field in fields(Profile)[1:])
REPEATED = (*REQUIRED, "sequential_setup_us", "empty_flush_us")
MAX_PARALLELISM = 256
TEXT_KEYS = ("about", "date", "price_date")
FLAGS = ("power_loss_protection", "volatile")
TEXT_LISTS = ("sources", "assumed")
TIMES = (*(key for key in REPEATED if key != "price_per_gb"), "parallelism")
PRICE = ("price_usd_per_gb",)
ENDURANCE = ("tbw", "dwpd", "warranty_years", "endurance_cycles")
"""The figures on which it depends what a device gains, whether it is bought, how long it lasts."""
QUANTILE_KEYS = ("read_quantiles_us", "write_quantiles_us")
MAX_QUANTILES = 64
MAX_CELLS = 1024
MAX_REPEATS = 64
CELL = tuple(field.name for field in fields(LatencyCell))
MEAN_FACTOR = 1.5
"""How many times the latency the mean of its distribution may be, or the other way round."""
LIMITS = {
    "read_mib_s": ("0.001", "10000000", " MiB/s"),
    "write_mib_s": ("0.001", "10000000", " MiB/s"),
    "rpm": ("1", "1000000", ""),
    "capacity_gb": ("0.001", "1000000000", " GB"),
    "endurance_cycles": ("1", "1e18", ""),
    "tbw": ("0.001", "1e12", " TB"),
    "dwpd": ("0.0001", "1e6", ""),
    "warranty_years": ("0.1", "100", " years"),
    "price_usd_per_gb": ("0.000001", "1e6", " USD"),
}
"""Least, most and unit, as messages write them."""


def load_profiles(user_file: Path | None = None) -> dict[str, Profile]:
    """Return the built-in profiles by name, with those of the file `user_file`.

    Raise InputError naming file, profile, key and value for whatever is wrong in a file.
    """
    return {**_built_in(), **(_read_file(user_file) if user_file else {})}


@functools.cache
def _built_in() -> dict[str, Profile]:
    return _read_file(BUILT_IN)


def choose_profile(
    profiles: Mapping[str, Profile], name: str, *, others: Sequence[str] = ()
) -> Profile:
    """Return the profile called `name`, or raise UsageError that lists the names.

    `others` are what could be given there instead of a profile.
    """
    if name not in profiles:
        names = [*others, *profiles]
        raise UsageError(f"there is no device profile '{name}'", hint=suggest(name, names))
    return profiles[name]


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint for a name that is not known: one like it, and all that are."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}there are: {', '.join(names)}"


def transfer_us(mib_s: float) -> float:
    """Return the microseconds that 4 KiB take at a rate."""
    return BLOCK_BYTES / MIB / mib_s * 1e6


def _read_file(file: Path) -> dict[str, Profile]:
    text, tables = load_toml(file)
    if not tables:
        raise InputError(f"{file} has no profile", hint=f"copy a table from {BUILT_IN}")
    return {
        name: _read_profile(Place(file, text, (name,), f": profile [{name}]"), name, table)
        for name, table in tables.items()
    }


def _read_profile(place: Place, name: str, table: Any) -> Profile:
    if not isinstance(table, dict):
        raise InputError(
            f"{replace(place, words='')}: '{name} = {table!r}' is outside of any profile",
            hint="begin a profile with its name in square brackets, for example [my-ssd]",
        )
    check_keys(table, KNOWN, place=place)
    for key in REQUIRED:
        if key not in table:
            raise InputError(
                f"{place} has no key '{key}'", hint=f"each profile needs: {', '.join(REQUIRED)}"
            )
    values = {key: _checked_value(place.at(key), key, value) for key, value in table.items()}
    profile = Profile(**{"name": name, "about": name, **values})
    for operation in ("read", "write"):
        _check_setup(place, profile, operation)
        _check_mean(place, profile, operation)
        for number, one in enumerate(profile.measured):
            repeat = place.at("repeats", number, words=f", repeat {number + 1}")
            _check_setup(repeat, one, operation)
    _check_flush(place, profile)
    _check_disk(place, profile)
    _check_rating(place, profile)
    # What is assumed is a figure that is there.
    check_keys(profile.assumed, [*table], place=place.at("assumed"))
    return profile


def _checked_value(place: Place, key: str, value: Any) -> Any:
    """Return the value of any key as a profile has it."""
    if key in TEXT_KEYS:
        return _checked_text(place, value, is_date=key != "about")
    if key in TEXT_LISTS:
        return tuple(_checked_text(place, one) for one in _listed(value))
    if key in FLAGS and not isinstance(value, bool):
        raise InputError(f"{place}: {value!r} is neither true nor false")
    if key == "distributions":
        return _checked_cells(place, value)
    if key == "repeats":
        return _checked_repeats(place, value)
    if key in QUANTILE_KEYS:
        return _checked_quantiles(place, value)
    return value if key in FLAGS else checked_number(place, key, value=value)


def _checked_repeats(place: Place, value: Any) -> tuple[Repeat, ...]:
    """Return the tables of several measurements; InputError for what is none."""
    tables = _listed(value)
    if not 2 <= len(tables) <= MAX_REPEATS or not all(isinstance(one, dict) for one in tables):
        raise InputError(
            f"{place}: not 2 to {MAX_REPEATS} tables",
            hint=f"one a measurement, each with keys such as {', '.join(REPEATED[:2])}",
        )
    for number, one in enumerate(tables):
        check_keys(one, REPEATED, place=place.at(number))
    return tuple(
        tuple((key, checked_number(place.at(number, key), key, value=one[key])) for key in one)
        for number, one in enumerate(tables)
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _checked_text(place: Place, value: Any, *, is_date: bool = False) -> str:
    if not isinstance(value, str):
        raise InputError(f"{place}: {value!r} is not text")
    if is_date and not _DATE.fullmatch(value):
        raise InputError(f"{place}: {value!r} is not a date", hint='for example "2017-03"')
    return value


def checked_number(place: Place, key: str, *, value: Any) -> float:
    """Return the value of a profile's key; InputError names the place and value if it cannot be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{place}: {value!r} is not a number")
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{place}: {value} is not a number from 0 up")
    if key.endswith("_us") and value > 1e8:
        raise InputError(f"{place}: {value} us is more than 100 s")
    if key == "price_per_gb" and value == 0:
        raise InputError(f"{place}: a price of 0 makes every comparison of prices meaningless")
    if key == "parallelism" and not (1 <= value <= MAX_PARALLELISM and value == int(value)):
        raise InputError(f"{place}: {value} is not a whole number from 1 to {MAX_PARALLELISM}")
    if key in LIMITS:
        least, most, unit = LIMITS[key]
        if not float(least) <= value <= float(most):
            raise InputError(f"{place}: {value}{unit} is not between {least} and {most}")
    return float(value)


def _check_setup(place: Place, profile: Profile, operation: str) -> None:
    setup_us, latency_us, rate = (
        getattr(profile, f"{operation}_{key}") for key in ("setup_us", "latency_us", "mib_s")
    )
    if setup_us < 0:
        raise InputError(
            f"{place.on(f'{operation}_latency_us')}: {operation}_latency_us"
            f" {latency_us} is shorter than moving 4 KiB at"
            f" {operation}_mib_s {rate} ({transfer_us(rate):.3f} us)",
            hint="the latency is of a whole 4 KiB request, its transfer included",
        )
    if profile.sequential_setup_us is not None and profile.sequential_setup_us > setup_us:
        raise InputError(
            f"{place.on('sequential_setup_us')}: sequential_setup_us"
            f" {profile.sequential_setup_us} is more than a random"
            f" {operation}'s fixed cost of {setup_us:.3f} us"
        )


def _check_flush(place: Place, profile: Profile) -> None:
    empty_us = profile.empty_flush_us
    if empty_us is not None and empty_us > profile.flush_us:
        raise InputError(
            f"{place.on('empty_flush_us')}: empty_flush_us {empty_us} is more than flush_us"
            f" {profile.flush_us}: a flush of nothing takes no longer than another"
        )


def _checked_quantiles(place: Place, value: Any) -> Quantiles:
    """Return a list of [probability, us]; InputError for what is no distribution."""
    hint = (
        "for example [[0, 55], [0.5, 60], [0.99, 150], [1, 900]]: of each share the longest, in us"
    )
    rows = value if isinstance(value, list) else []
    if not 2 <= len(rows) <= MAX_QUANTILES:
        raise InputError(f"{place}: not 2 to {MAX_QUANTILES} pairs", hint=hint)
    for row in rows:
        is_pair = isinstance(row, list) and len(row) == 2
        if not is_pair or any(isinstance(n, bool) or not isinstance(n, int | float) for n in row):
            raise InputError(f"{place}: {row!r} is not a pair of numbers", hint=hint)
        if not (0 <= row[0] <= 1 and 0 < row[1] <= 1e8):
            raise InputError(f"{place}: {row!r} is not a probability and up to 100 s", hint=hint)
    quantiles = tuple((float(p), float(us)) for p, us in rows)
    rises = all(p < q and a <= b for (p, a), (q, b) in pairwise(quantiles))
    if not rises or quantiles[0][0] != 0 or quantiles[-1][0] != 1:
        raise InputError(f"{place}: does not rise from a probability of 0 to one of 1", hint=hint)
    return quantiles


def _checked_cells(place: Place, value: Any) -> tuple[LatencyCell, ...]:
    """Return the cells of a table of distributions; InputError for what is no such cell."""
    tables = _listed(value)
    if len(tables) > MAX_CELLS or not all(isinstance(one, dict) for one in tables):
        raise InputError(
            f"{place}: not up to {MAX_CELLS} tables",
            hint=f"each with the keys {', '.join(CELL)}, as characterize-device writes them",
        )
    cells = tuple(_checked_cell(place.at(number), one) for number, one in enumerate(tables))
    if len({cell.place for cell in cells}) < len(cells):
        raise InputError(f"{place}: two have the same operation, length, depth and share of writes")
    return cells


def _checked_cell(place: Place, table: Mapping[str, Any]) -> LatencyCell:
    check_keys(table, CELL, place=place)
    if missing := [key for key in CELL if key not in table]:
        raise InputError(f"{place} has no key '{missing[0]}'")
    ratio, operation = table["write_ratio"], table["operation"]
    is_ratio = isinstance(ratio, int | float) and not isinstance(ratio, bool) and 0 <= ratio <= 1
    if operation not in ("read", "write") or not is_ratio or ratio == (operation == "read"):
        raise InputError(f"{place}: no {operation!r} among requests of which {ratio!r} are writes")
    for key, most in (("length_bytes", 1 << 30), ("depth", 1024), ("requests", 1 << 62)):
        count = table[key]
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
            raise InputError(
                f"{place.on(key)}: {key}: {count!r} is not a whole number from 1 to {most}"
            )
    quantiles = _checked_quantiles(place.at("quantiles_us"), table["quantiles_us"])
    return LatencyCell(**{**table, "write_ratio": float(ratio), "quantiles_us": quantiles})


def _check_rating(place: Place, profile: Profile) -> None:
    """Raise InputError for writes that are stated twice, or without what they refer to."""
    given = [key for key in ("tbw", "dwpd") if getattr(profile, key) is not None]
    if len(given) == 2:
        raise InputError(
            f"{place.on('dwpd')}: tbw and dwpd state the same",
            hint="leave one of them out",
        )
    needed = ("warranty_years", *(("capacity_gb",) if given == ["tbw"] else ()))
    for key in needed if given else ():
        if getattr(profile, key) is None:
            raise InputError(
                f"{place.on(given[0])}: {given[0]} needs {key}",
                hint="it says what it refers to",
            )
    if profile.has_head and profile.distributions:
        raise InputError(f"{place}: the times of a disk whose head moves have no distributions")


def _check_mean(place: Place, profile: Profile, operation: str) -> None:
    """Raise InputError for quantiles of another device than the latency, or of a disk's head."""
    key = f"{operation}_quantiles_us"
    quantiles: Quantiles | None = getattr(profile, key)
    if quantiles is None:
        return
    if profile.has_head:
        raise InputError(
            f"{place}: the times of a disk whose head moves follow from its distance",
            hint=f"leave {key} out, or {', '.join(DISK)}",
        )
    latency_us, mean_us = getattr(profile, f"{operation}_latency_us"), mean_of(quantiles)
    if not latency_us / MEAN_FACTOR <= mean_us <= latency_us * MEAN_FACTOR:
        raise InputError(
            f"{place.on(key)}: the mean of {key} is {mean_us:.6g} us, {operation}_latency_us"
            f" {latency_us:.6g}: that is another device",
            hint="the latency is the mean of 4 KiB requests; quantiles give the form around it",
        )


def _check_disk(place: Place, profile: Profile) -> None:
    missing = [key for key in DISK if getattr(profile, key) is None]
    if {*HEAD} <= {*missing} and profile.write_settle_us is None:
        return
    if missing:
        raise InputError(
            f"{place} has no key '{missing[0]}' of a disk whose head moves",
            hint=f"such a disk needs all of: {', '.join(DISK)}",
        )
    if (profile.parallelism or 1) > 1:
        raise InputError(f"{place}: a disk with one head has no parallelism above 1")
    if not seek_curve(profile).is_rising:
        raise InputError(
            f"{place}: seeks of {profile.seek_track_us} us track to track, "
            f"{profile.seek_average_us} us on average and {profile.seek_full_us} us over the full "
            "stroke are not those of a curve that only rises",
            hint="the average lies near the middle of the other two, or above it",
        )


def picoseconds(us: float) -> int:
    """Return microseconds as whole picoseconds."""
    return round(us * PS_PER_US)


def device_cost(device: Profile) -> Cost:
    """Convert a profile to whole picoseconds; the transfer is rounded by 512-byte sector."""
    setup = (picoseconds(device.read_setup_us), picoseconds(device.write_setup_us))
    sequential = setup
    if device.sequential_setup_us is not None:
        # Of a device whose setup is varied, what continues costs no more than what does not.
        continued_ps = picoseconds(device.sequential_setup_us)
        sequential = (min(continued_ps, setup[0]), min(continued_ps, setup[1]))
    read_ps = round(SECTOR_BYTES / MIB / device.read_mib_s * 1e12)
    write_ps = round(SECTOR_BYTES / MIB / device.write_mib_s * 1e12)
    return Cost(setup, sequential, (read_ps, write_ps), picoseconds(device.fua_us))


def disk_of(profile: Profile) -> Disk | None:
    """Return the head of a profile's disk, None for a device without one."""
    if profile.rpm is None or profile.seek_average_us is None or profile.capacity_gb is None:
        return None
    curve = seek_curve(profile)
    turn_us = 60e6 / profile.rpm
    return Disk(
        track_ps=curve.track_us * 1e6,
        root_ps=curve.root_us * 1e6,
        linear_ps=curve.linear_us * 1e6,
        unknown_ps=picoseconds(profile.seek_average_us),
        half_turn_ps=picoseconds(turn_us / 2),
        settle_ps=(0, picoseconds(profile.write_settle_us or 0)),
        track_sectors=round(turn_us / 1e6 * profile.read_mib_s * MIB / SECTOR_BYTES),
        capacity_sectors=round(profile.capacity_gb * GB / SECTOR_BYTES),
    )


def base_cost(base: Profile) -> Cost:
    """Return the base device's costs; on a disk what goes on where the head is costs no more."""
    cost = device_cost(base)
    if not base.has_head:
        return cost
    return replace(cost, sequential_ps=(picoseconds(base.sequential_setup_us or 0),) * 2)


def flush_cost(device: Profile) -> tuple[int, int]:
    """Return what a flush takes in ps, with nothing to flush and with something."""
    flush_ps = picoseconds(device.flush_us)
    empty_us = device.empty_flush_us
    # Of a device of which one of the two is varied, a flush of nothing costs no more.
    return (flush_ps if empty_us is None else min(picoseconds(empty_us), flush_ps)), flush_ps


def finds_writes(is_flush: NDArray[np.bool_], leaves: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which requests to a device flush it while something written is on it (flush_cost.h).

    A request flushes it before its own data, and `leaves` something to flush after them.
    """
    before: NDArray[np.int64] = np.cumsum(leaves) - leaves
    found = np.zeros(len(leaves), bool)
    found[is_flush] = np.diff(before[is_flush], prepend=0) > 0
    return found


class DevicePair(NamedTuple):
    """The base device, and the NVM to which blocks are moved."""

    base: Profile
    nvm: Profile

    @property
    def measured(self) -> list[DevicePair]:
        """The devices as each measurement of them found them; one measured once stays as it is."""
        found = [one.measured for one in self]
        count = min((len(one) for one in found if one), default=0)
        return [
            DevicePair(*(many[n] if many else one for one, many in zip(self, found, strict=True)))
            for n in range(count)
        ]

    def slowed(self, base: float, nvm: float) -> DevicePair:
        """Return devices on which every request takes so many times as long."""
        return DevicePair(self.base.slowed(base), self.nvm.slowed(nvm))

    @property
    def depend_on_order(self) -> bool:
        """Whether what a request or a flush costs on one of them depends on those before it."""
        costs = base_cost(self.base), device_cost(self.nvm)
        return (
            self.base.has_head
            or any(cost.sequential_ps != cost.latency_ps for cost in costs)
            or any(empty_ps != ps for empty_ps, ps in self.flush_ps)
        )

    @property
    def flush_ps(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """What a flush of each takes with nothing to flush, and with something (flush_cost.h)."""
        return flush_cost(self.base), flush_cost(self.nvm)

    @property
    def servers(self) -> tuple[int, int]:
        """How many requests each serves at once."""
        return int(self.base.parallelism or 1), int(self.nvm.parallelism or 1)
