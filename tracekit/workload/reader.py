"""Reads a work profile from TOML, strictly: an error says where it is and what to do."""

from __future__ import annotations

import math
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from tracekit._native.workload import USE_BANDS, USE_CLASSES
from tracekit.errors import InputError, UsageError
from tracekit.tables import ROLES
from tracekit.toml_files import load_toml
from tracekit.units import SECTOR_BYTES
from tracekit.workload import model
from tracekit.workload.keys import Keys, cumulated
from tracekit.workload.model import ONE, Arrival, Distribution, Locality, Profile, Request, Stream

GAPS = ("constant", "exponential", "gamma", "weibull", "lognormal", "measured")
SPREADS = ("exponential", "gamma", "lognormal")
SHAPE_MOST = 1e4
US = 1000.0


def by_mean(kind: str, mean: float, *, shape: float) -> Distribution:
    """Return the distribution of that mean; `shape` is sigma of a lognormal one."""
    if kind == "constant":
        return Distribution(model.CONSTANT, mean)
    if kind == "exponential":
        return Distribution(model.EXPONENTIAL, mean)
    if kind == "gamma":
        return Distribution(model.GAMMA, mean / shape, shape)
    if kind == "weibull":
        return Distribution(model.WEIBULL, mean / math.gamma(1 + 1 / shape), shape)
    return Distribution(model.LOGNORMAL, mean * math.exp(-shape * shape / 2), shape)


def _drawn(keys: Keys, kind: str, mean: float) -> Distribution:
    """Return the distribution of that mean, with the shape or sigma that it has."""
    shape = 0.0
    if kind in ("gamma", "weibull"):
        shape = keys.number("shape", low=0.01, high=SHAPE_MOST)
    elif kind == "lognormal":
        shape = keys.number("sigma", low=1e-4, high=20)
    return by_mean(kind, mean, shape=shape)


def _quantiles(keys: Keys, key: str, *, low: float, unit: float = 1.0) -> Distribution:
    """Return the distribution of `shares` and the values in `key`, which are in `unit`."""
    shares, values = keys.numbers("shares", low=0, high=1), keys.numbers(key, low=low, high=1e15)
    for name, numbers in (("shares", shares), (key, values)):
        if any(after < before for before, after in pairwise(numbers)):
            raise keys.wrong(name, "falls somewhere", hint="sort it in ascending order")
    if len(shares) != len(values) or len(shares) < 2:
        raise keys.wrong(key, f"has {len(values)} values for {len(shares)} shares")
    if shares[0] != 0 or shares[-1] != 1:
        raise keys.wrong("shares", "does not go from 0 to 1")
    return Distribution(
        model.QUANTILES, values=tuple(value * unit for value in values), up_to=shares
    )


GAP_KEYS = ("mean", "shape", "sigma", "shares", "values_us")


def read_gap(keys: Keys, key: str) -> Distribution:
    """Return the gaps in ns of a table whose `key` names their distribution."""
    kind = keys.choice(key, GAPS)
    if kind == "measured":
        return _quantiles(keys, "values_us", low=1e-3, unit=US)
    return _drawn(keys, kind, float(keys.duration("mean")))


def read_sizes(keys: Keys) -> tuple[Distribution, int, int]:
    """Return the sizes in bytes of the key `size`, the least and the largest of them."""
    value = keys.value("size")
    if not isinstance(value, dict):
        size = keys.size("size")
        return Distribution(model.CONSTANT, float(size)), size, size
    if "values" in value:
        return _listed_sizes(keys.table("size", "values", "weights"))
    own = keys.table("size", "distribution", "mean", "shape", "sigma", "least", "most")
    kind = own.choice("distribution", ("gamma", "lognormal"))
    spread = _drawn(own, kind, float(own.size("mean")))
    least, most = own.size("least"), own.size("most")
    if least > most:
        raise own.wrong("least", f"is above the largest size, {most}")
    return spread, least, most


def _listed_sizes(own: Keys) -> tuple[Distribution, int, int]:
    values = own.value("values")
    if not isinstance(values, list) or not values:
        raise own.wrong("values", "is no list of sizes", hint='such as ["4KiB", "64KiB"]')
    sizes = [own.size_of("values", value) for value in values]
    shares = own.weights("weights", len(sizes))
    found = Distribution(model.CHOICES, values=tuple(map(float, sizes)), up_to=shares)
    return found, min(sizes), max(sizes)


def read_count(keys: Keys, key: str) -> Distribution:
    """Return how many: a number, values with weights, or a distribution with its mean."""
    value: Any = keys.value(key)
    if not isinstance(value, dict):
        return Distribution(model.CONSTANT, keys.number(key, low=1, high=1e15))
    if "shares" in value:
        return _quantiles(keys.table(key, "shares", "values"), "values", low=1)
    if "values" in value:
        own = keys.table(key, "values", "weights")
        numbers = own.numbers("values", low=1, high=1e15)
        shares = own.weights("weights", len(numbers))
        return Distribution(model.CHOICES, values=numbers, up_to=shares)
    own = keys.table(key, "distribution", "mean", "shape", "sigma")
    kind = own.choice("distribution", SPREADS)
    return _drawn(own, kind, own.number("mean", low=1, high=1e15))


KNOWN = {
    "uniform": ("kind",),
    "zipf": ("kind", "block", "exponent"),
    "hot": ("kind", "block", "blocks", "requests"),
    "shares": ("kind", "block", "blocks", "requests"),
}


def read_locality(keys: Keys, align_bytes: int) -> Locality:
    """Return the locality of the keys `locality`, `reuse` and `distance`.

    Without them all places are even.
    """
    found = Locality()
    if keys.has("locality") and keys.value("locality") != "uniform":
        found = _spatial(keys, align_bytes)
    if keys.has("reuse"):
        own = keys.table("reuse", "share", "distance")
        share = own.number("share", low=0, high=1)
        found = replace(found, reuse_ratio=share, distance=read_count(own, "distance"))
    if keys.has("distance"):
        found = replace(found, distance=read_count(keys, "distance"))
    return found


def _spatial(keys: Keys, align_bytes: int) -> Locality:
    value = keys.value("locality")
    if not isinstance(value, dict):
        hint = 'write "uniform" or { kind = "zipf", exponent = 0.99, block = "64KiB" }'
        raise keys.wrong("locality", "is no locality", hint=hint)
    own = keys.table("locality", *dict.fromkeys(chain(*KNOWN.values())))
    kind = own.choice("kind", tuple(KNOWN))
    own = Keys(value, f"{own.place} of kind {kind}", known=KNOWN[kind])
    if kind == "uniform":
        return Locality()
    block = own.size("block", align_bytes)
    if block % align_bytes:
        raise own.wrong("block", f"is {block:,} bytes, no multiple of align, {align_bytes:,}")
    if kind == "zipf":
        return Locality(model.ZIPF, block, own.number("exponent", low=0.01, high=10))
    if kind == "hot":
        blocks, requests = (own.number(key, low=1e-9, high=1) for key in ("blocks", "requests"))
        return Locality(model.SHARES, block, 0, (blocks, 1.0), (requests, 1.0))
    count = len(own.numbers("blocks", low=0, high=1e18))
    blocks_to, requests_to = (own.weights(key, count) for key in ("blocks", "requests"))
    return Locality(model.SHARES, block, 0, blocks_to, requests_to)


SHIPPED = Path(__file__).with_name("profiles")
MOST_BYTES = 64 << 20  # of one request, as in a plan
ACCESSES = ("random", "sequential", "following", "circular")
SHARE_ERROR = 1e-6
PROFILE_KEYS = ("name", "about", "target_size", "sector", "direct", "pace", "depth")
STREAM_KEYS = ("arrival", "request", "phase")
FOLLOWING_KEYS = ("begins", "pages", "distance", "uses")
PLACE_KEYS = (
    "access", "size", "align", "run", *FOLLOWING_KEYS, "circle", "locality", "reuse"
)  # fmt: skip
REQUEST_KEYS = ("share", "operation", "flags", "then", *PLACE_KEYS)
BEGINS = ("on", "resumed", "elsewhere", "again")


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
    text, content = load_toml(file)
    own_keys = ("stream",) if "stream" in content else STREAM_KEYS
    keys = Keys(content, f"{file}", known=(*PROFILE_KEYS, *own_keys))
    target_bytes, sector_bytes = keys.size("target_size"), keys.size("sector", SECTOR_BYTES)
    if sector_bytes % SECTOR_BYTES or sector_bytes & (sector_bytes - 1):
        raise keys.wrong("sector", "is no power of two from 512 up")
    if target_bytes % sector_bytes:
        raise keys.wrong("target_size", f"is no multiple of the sector, {sector_bytes} bytes")
    is_direct = keys.flag("direct", default=True)
    reader = _Reader(target_bytes, sector_bytes if is_direct else SECTOR_BYTES)
    return Profile(
        name=keys.text("name", file.stem),
        about=keys.text("about", file.stem),
        target_bytes=target_bytes,
        streams=reader.streams(keys),
        sector_bytes=sector_bytes,
        is_direct=is_direct,
        pace=keys.choice("pace", ("open", "fast"), default="open"),
        depth=int(keys.number("depth", low=1, high=65536, default=32)),
        file=file,
        text=text,
    )


class _Reader:
    """What the streams of one file have in common; `unit` divides all that is read or written."""

    def __init__(self, target_bytes: int, unit: int) -> None:
        self.target_bytes, self.unit = target_bytes, unit

    def streams(self, keys: Keys) -> tuple[Stream, ...]:
        if not keys.has("stream"):
            whole = {key: value for key, value in keys.content.items() if key in STREAM_KEYS}
            return (self._stream(Keys(whole, keys.place, known=STREAM_KEYS)),)
        found = keys.tables("stream", *STREAM_KEYS, "role", "process", "start", "size")
        if not found:
            raise keys.wrong("stream", "holds no stream", hint="write [[stream]]")
        return tuple(map(self._stream, found))

    def _stream(self, keys: Keys) -> Stream:
        start = keys.offset("start") if keys.has("start") else 0
        size = keys.size("size", self.target_bytes - start)
        for key, value in (("start", start), ("size", size)):
            self._check_unit(keys, key, value)
        if start + size > self.target_bytes or size <= 0:
            key = "size" if keys.has("size") else "start"
            hint = f"the target has {self.target_bytes:,} bytes"
            raise keys.wrong(key, "passes the end of the target", hint=hint)
        kinds = keys.tables("request", *REQUEST_KEYS)
        if not kinds:
            raise InputError(f"{keys.place}: there is no request", hint="add [[request]]")
        requests = [self._request(one, size, kinds=len(kinds)) for one in kinds]
        _check_shares(keys.place, requests)
        if len({one.circle for one in requests} - {None}) > 1:
            raise InputError(
                f"{keys.place}: its circular requests have different keys 'circle'",
                hint="they go round together: make two streams, or give them the same",
            )
        return Stream(
            arrival=_arrival(keys),
            requests=tuple(requests),
            start_bytes=start,
            size_bytes=size,
            role=keys.choice("role", ROLES, default="unknown"),
            process=keys.text("process") if keys.has("process") else None,
        )

    def _request(self, keys: Keys, size_bytes: int, *, kinds: int) -> Request:
        share = keys.number("share", low=0, high=1)
        operation = keys.choice("operation", model.OPERATIONS)
        flags = _flags(keys)
        then = keys.counts("then", kinds) if keys.has("then") else ()
        if operation == "flush":
            keys.reject(PLACE_KEYS, "is not for a flush")
            return Request(share, operation, flags=flags, then=then)
        sizes, least, most = read_sizes(keys)
        for size in sizes.values or (least, most):
            self._check_unit(keys, "size", int(size))
        longest = min(size_bytes, MOST_BYTES)
        if most > longest:
            raise keys.wrong("size", f"is above {longest:,} bytes, the most that fits here")
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
            begins=_begins(keys),
            is_used=keys.has("pages") and keys.value("pages") == "used",
            uses=_uses(keys),
            circle=self._circle(keys, size_bytes, most_bytes=most),
            locality=read_locality(keys, align),
            flags=flags,
            then=then,
        )

    def _circle(self, keys: Keys, size_bytes: int, *, most_bytes: int) -> tuple[int, int] | None:
        """Return start and size of the part of the stream's where a request goes round."""
        if keys.value("access") != "circular":
            keys.reject(["circle"], "is for circular access")
            return None
        keys.reject(["locality", "reuse"], "is not for circular access")
        if not keys.has("circle"):
            return 0, size_bytes
        own = keys.table("circle", "start", "size")
        start, size = own.offset("start"), own.size("size")
        for key, value in (("start", start), ("size", size)):
            self._check_unit(own, key, value)
        if start + size > size_bytes:
            raise own.wrong("size", f"passes the end of the {size_bytes:,} bytes that there are")
        if size < most_bytes:
            raise own.wrong("size", f"is below the largest request, {most_bytes:,} bytes")
        return start, size

    def _check_unit(self, keys: Keys, key: str, size: int) -> None:
        if size % self.unit:
            problem = f"is {size:,} bytes, no multiple of the sector of {self.unit}"
            hint = "requests are made of sectors of 512 bytes: round it"
            if self.unit > SECTOR_BYTES:
                hint = "direct I/O moves whole sectors: round it, or set sector or direct = false"
            raise keys.wrong(key, problem, hint=hint)


def _flags(keys: Keys) -> tuple[str, ...]:
    flags = keys.value("flags", [])
    if not isinstance(flags, list) or any(flag not in model.FLAGS for flag in flags):
        raise keys.wrong("flags", "is no list of flags", hint=f"of: {', '.join(model.FLAGS)}")
    return tuple(dict.fromkeys(flags))


def _begins(keys: Keys) -> str | None:
    """Return where a request that follows begins, None for one that does not."""
    if keys.choice("access", ACCESSES) != "following":
        keys.reject(FOLLOWING_KEYS, "is for following access")
        return None
    if keys.choice("pages", ("new", "used")) == "used":
        keys.reject(["locality"], "is for pages = 'new'")
    else:
        keys.reject(["distance", "uses"], "is for pages = 'used'")
    hint = 'write pages = "used" and distance'
    keys.reject(["reuse"], "is not for following access", hint=hint)
    if keys.value("pages") == "used":
        keys.value("distance")
    begins = keys.choice("begins", BEGINS)
    if begins == "again" and keys.value("pages") != "used":
        raise keys.wrong("pages", "cannot be of a request again", hint='write pages = "used"')
    return begins


def _uses(keys: Keys) -> tuple[float, ...]:
    """Return how often used pages were used: rows of cumulated shares, of zeros where none is."""
    if not keys.has("uses"):
        return ()
    if keys.value("begins") not in ("elsewhere", "again"):
        raise keys.wrong("uses", "is for begins = 'elsewhere' or 'again'", hint="leave uses out")
    rows = keys.value("uses")
    if not isinstance(rows, list) or not 1 <= len(rows) <= USE_BANDS:
        raise keys.wrong("uses", f"is no list of 1 to {USE_BANDS} lists")
    table: list[float] = []
    for row in rows:
        own = Keys({"uses": row}, keys.place, known=("uses",))
        shares = own.numbers("uses", low=0, high=1e18)
        if len(shares) > USE_CLASSES:
            raise own.wrong("uses", f"has more than {USE_CLASSES} shares")
        sums = cumulated(shares) if any(shares) else (0.0,)
        table += [*sums, *[sums[-1]] * (USE_CLASSES - len(sums))]
    return (*table, *[0.0] * (USE_BANDS * USE_CLASSES - len(table)))


def _run(keys: Keys) -> Distribution | None:
    """Return the requests of a run: one if random, None for one without end."""
    if keys.choice("access", ACCESSES) != "sequential":
        keys.reject(["run"], "is for sequential access")
        return ONE
    if keys.has("run"):
        return read_count(keys, "run")
    hint = "without a run all go on from the start"
    keys.reject(["locality", "reuse"], "is for runs", hint=hint)
    return None


def _check_shares(place: str, requests: list[Request]) -> None:
    total = math.fsum(request.share for request in requests)
    if abs(total - 1) > SHARE_ERROR:
        shares = " + ".join(f"{request.share:g}" for request in requests)
        problem = f"shares of [[request]] are {shares} = {total:g}"
        if len(requests) == 1:
            problem = f"share of the only [[request]] is {total:g}"
        raise InputError(
            f"{place}: the {problem}, not 1",
            hint=f"change key 'share': {abs(1 - total):g} is "
            + ("missing" if total < 1 else "too much"),
        )


ARRIVAL_KEYS = ("process", "correlation", "burst", *GAP_KEYS)


def _arrival(stream: Keys) -> Arrival:
    keys = Keys(stream.value("arrival"), f"{stream.place}: [arrival]", known=ARRIVAL_KEYS)
    gap = read_gap(keys, "process")
    correlation = keys.number("correlation", low=-0.999, high=0.999, default=0)
    if correlation and keys.value("process") == "gamma":
        hint = "use weibull, lognormal or measured gaps, which are drawn by their quantiles"
        raise keys.wrong("correlation", "cannot go with gamma", hint=hint)
    off = burst = None
    if keys.has("burst"):
        own = keys.table("burst", "requests", "off", *GAP_KEYS)
        burst, off = read_count(own, "requests"), read_gap(own, "off")
    phases = []
    for one in stream.tables("phase", "name", "duration", "rate"):
        one.text("name", "")
        rate = one.value("rate")
        rates = one.numbers("rate", low=0, high=1e9) if isinstance(rate, list) else ()
        rates = rates or (one.number("rate", low=0, high=1e9),)
        duration_ns, count = one.duration("duration"), len(rates)
        if duration_ns < count:
            raise one.wrong("rate", "has more rates than the duration nanoseconds")
        ends = [duration_ns * number // count for number in range(count + 1)]
        phases += [
            model.Phase(end - start, each)
            for (start, end), each in zip(pairwise(ends), rates, strict=True)
        ]
    if phases and not any(phase.rate for phase in phases):
        message = f"{stream.place}: no request comes in any [[phase]]"
        raise InputError(message, hint="give one a rate above 0")
    return Arrival(gap, correlation, off, burst, tuple(phases))
