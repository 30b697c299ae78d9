"""Reads a work profile from TOML, strictly: what is odd is an error that says what to do."""

from __future__ import annotations

import math
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tracekit.errors import InputError, UsageError
from tracekit.schema import ROLES
from tracekit.workload.distributions import GAP_KEYS, read_count, read_gap, read_sizes
from tracekit.workload.keys import Keys, load
from tracekit.workload.localities import read_locality
from tracekit.workload.model import ONE, Arrival, Distribution, Phase, Profile, Request, Stream

SHIPPED = Path(__file__).parents[1] / "workloads"
SECTOR_BYTES = 512
MOST_BYTES = 64 << 20  # of one request, as in a plan
ACCESSES = ("random", "sequential", "following")
OPERATIONS = ("read", "write", "flush")
FLAGS = ("fua", "preflush", "sync", "meta", "readahead")
SHARE_ERROR = 1e-6
PROFILE_KEYS = ("name", "about", "target_size", "sector", "direct", "pace", "depth")
STREAM_KEYS = ("arrival", "request", "phase")
PLACE_KEYS = ("access", "size", "align", "run", "goes_on", "resumes", "locality", "reuse")
REQUEST_KEYS = ("share", "operation", "flags", *PLACE_KEYS)


def shipped() -> dict[str, Path]:
    """Return the definitions that come with the program, by name."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.toml"))}


def find_definition(name: str) -> Path:
    """Return the file of a shipped definition or of a path; raise UsageError for neither."""
    known = shipped()
    if name in known:
        return known[name]
    file = Path(name)
    if file.suffix == ".toml" or file.exists():
        return file
    close = get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise UsageError(
        f"there is no profile '{name}'",
        hint=f"{meant}there are: {', '.join(known)}; or name a TOML file",
    )


def read_profile(file: Path) -> Profile:
    """Return the profile of a file; raise InputError naming file, place, key and value."""
    text, content = load(file)
    if "stream" in content:
        keys = Keys(content, f"{file}", known=(*PROFILE_KEYS, "stream"))
    else:
        keys = Keys(content, f"{file}", known=(*PROFILE_KEYS, *STREAM_KEYS))
    target_bytes, sector_bytes = keys.size("target_size"), keys.size("sector", SECTOR_BYTES)
    if sector_bytes % SECTOR_BYTES or sector_bytes & (sector_bytes - 1):
        raise keys.wrong("sector", "is no power of two from 512 up")
    if target_bytes % sector_bytes:
        raise keys.wrong("target_size", f"is no multiple of the sector, {sector_bytes} bytes")
    is_direct = keys.flag("direct", default=True)
    reader = _Reader(file, target_bytes, sector_bytes if is_direct else SECTOR_BYTES)
    return Profile(
        name=keys.text("name", file.stem),
        about=keys.text("about", file.stem),
        target_bytes=target_bytes,
        streams=reader.streams(keys, content),
        sector_bytes=sector_bytes,
        is_direct=is_direct,
        pace=keys.choice("pace", ("open", "fast"), default="open"),
        depth=int(keys.number("depth", low=1, high=65536, default=32)),
        file=file,
        text=text,
    )


class _Reader:
    """What the streams of one file have in common; `unit` divides all that is read or written."""

    def __init__(self, file: Path, target_bytes: int, unit: int) -> None:
        self.file, self.target_bytes, self.unit = file, target_bytes, unit

    def streams(self, keys: Keys, content: dict[str, Any]) -> tuple[Stream, ...]:
        if "stream" not in content:
            whole = {key: content[key] for key in STREAM_KEYS if key in content}
            return (self._stream(whole, f"{self.file}"),)
        found = keys.tables("stream")
        if not found:
            raise keys.wrong("stream", "holds no stream", hint="write [[stream]]")
        return tuple(
            self._stream(table, f"{self.file}: [[stream]] {number}")
            for number, table in enumerate(found, 1)
        )

    def _stream(self, table: Any, place: str) -> Stream:
        keys = Keys(table, place, known=(*STREAM_KEYS, "role", "process", "start", "size"))
        is_first = keys.has("start") and keys.value("start") in (0, "0")
        start = 0 if is_first else keys.size("start", 0)
        size = keys.size("size", self.target_bytes - start)
        for key, value in (("start", start), ("size", size)):
            self._check_unit(keys, key, value)
        if start + size > self.target_bytes or size <= 0:
            key = "size" if keys.has("size") else "start"
            hint = f"the target has {self.target_bytes:,} bytes"
            raise keys.wrong(key, "passes the end of the target", hint=hint)
        tables = keys.tables("request")
        if not tables:
            raise InputError(f"{place}: there is no request", hint="add [[request]]")
        requests = [
            self._request(one, f"{place}: [[request]] {number}", size)
            for number, one in enumerate(tables, 1)
        ]
        _check_shares(place, requests)
        return Stream(
            arrival=_arrival(keys.value("arrival"), keys.tables("phase"), place),
            requests=tuple(requests),
            start_bytes=start,
            size_bytes=size,
            role=keys.choice("role", ROLES, default="unknown"),
            process=keys.text("process") if keys.has("process") else None,
        )

    def _request(self, table: Any, place: str, size_bytes: int) -> Request:
        keys = Keys(table, place, known=REQUEST_KEYS)
        share = keys.number("share", low=0, high=1)
        operation = keys.choice("operation", OPERATIONS)
        flags = _flags(keys)
        if operation == "flush":
            for key in PLACE_KEYS:
                if keys.has(key):
                    raise keys.wrong(key, "is not for a flush", hint=f"leave {key} out")
            return Request(share, operation, flags=flags)
        sizes, least, most = read_sizes(keys)
        listed = sizes.values or (float(least), float(most))
        for size in listed:
            self._check_unit(keys, "size", int(size))
        if most > min(size_bytes, MOST_BYTES):
            room = min(size_bytes, MOST_BYTES)
            raise keys.wrong("size", f"is above {room:,} bytes, the most that fits here")
        align = keys.size("align", least if least == most else self.unit)
        self._check_unit(keys, "align", align)
        if align > size_bytes:
            raise keys.wrong("align", f"is above {size_bytes:,} bytes, all that there is")
        return Request(
            share=share,
            operation=operation,
            size=sizes,
            least_bytes=least,
            most_bytes=most,
            align_bytes=align,
            run=_run(keys),
            goes_on=_goes_on(keys),
            resumes=_pair(keys, "resumes", "[its own kind, the run before]"),
            locality=read_locality(keys, align),
            flags=flags,
        )

    def _check_unit(self, keys: Keys, key: str, size: int) -> None:
        if size % self.unit:
            raise keys.wrong(
                key,
                f"is {size:,} bytes, no multiple of the sector of {self.unit}",
                hint="direct I/O moves whole sectors: round it, or set sector or direct = false"
                if self.unit > SECTOR_BYTES
                else "requests are made of sectors of 512 bytes: round it",
            )


def _flags(keys: Keys) -> tuple[str, ...]:
    flags = keys.value("flags") if keys.has("flags") else []
    if not isinstance(flags, list) or any(flag not in FLAGS for flag in flags):
        raise keys.wrong("flags", "is no list of flags", hint=f"of: {', '.join(FLAGS)}")
    return tuple(dict.fromkeys(flags))


def _goes_on(keys: Keys) -> tuple[float, float] | None:
    """Return how likely a request that follows goes on, after a jump and after going on."""
    if keys.choice("access", ACCESSES) != "following":
        for key in ("goes_on", "resumes"):
            if keys.has(key):
                raise keys.wrong(key, "is for following access", hint=f"leave {key} out")
        return None
    keys.value("goes_on")
    return _pair(keys, "goes_on", "[after a jump, after going on]")


def _pair(keys: Keys, key: str, meaning: str) -> tuple[float, float]:
    if not keys.has(key):
        return 0.0, 0.0
    ratios = keys.numbers(key, low=0, high=1)
    if len(ratios) != 2:
        raise keys.wrong(key, "is not two numbers", hint=f"write {meaning}, such as [0.2, 0.9]")
    return ratios[0], ratios[1]


def _run(keys: Keys) -> Distribution | None:
    """Return the requests of a run: one if random, None for one without end."""
    if keys.choice("access", ACCESSES) != "sequential":
        if keys.has("run"):
            raise keys.wrong("run", "is for sequential access", hint="leave run out")
        return ONE
    if keys.has("run"):
        return read_count(keys, "run")
    for key in ("locality", "reuse"):
        if keys.has(key):
            raise keys.wrong(key, "is for runs", hint="without a run all go on from the start")
    return None


def _check_shares(place: str, requests: list[Request]) -> None:
    total = math.fsum(request.share for request in requests)
    if abs(total - 1) > SHARE_ERROR:
        shares = " + ".join(f"{request.share:g}" for request in requests)
        raise InputError(
            f"{place}: the shares of [[request]] are {shares} = {total:g}, not 1",
            hint=f"change key 'share': {abs(1 - total):g} is "
            + ("missing" if total < 1 else "too much"),
        )


ARRIVAL_KEYS = ("process", "correlation", "burst", *GAP_KEYS)


def _arrival(table: Any, phases: list[Any], place: str) -> Arrival:
    keys = Keys(table, f"{place}: [arrival]", known=ARRIVAL_KEYS)
    gap = read_gap(keys, "process")
    correlation = keys.number("correlation", low=-0.999, high=0.999, default=0)
    if correlation and keys.value("process") == "gamma":
        hint = "use weibull, lognormal or measured gaps, which are drawn by their quantiles"
        raise keys.wrong("correlation", "cannot go with gamma", hint=hint)
    off = burst = None
    if keys.has("burst"):
        own = Keys(
            keys.value("burst"),
            f"{place}: [arrival], key 'burst'",
            known=("requests", "off", *GAP_KEYS),
        )
        burst, off = read_count(own, "requests"), read_gap(own, "off")
    return Arrival(gap, correlation, off, burst, _phases(phases, place))


def _phases(tables: list[Any], place: str) -> tuple[Phase, ...]:
    found = []
    for number, table in enumerate(tables, 1):
        keys = Keys(table, f"{place}: [[phase]] {number}", known=("name", "duration", "rate"))
        keys.text("name", "")
        found.append(Phase(keys.duration("duration"), keys.number("rate", low=0, high=1e9)))
    if found and not any(phase.rate for phase in found):
        raise InputError(
            f"{place}: no request comes in any [[phase]]", hint="give one a rate above 0"
        )
    return tuple(found)
