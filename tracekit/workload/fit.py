"""The stage: makes a profile of a trace, runs it once to compare, and keeps how far it is off."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit import store
from tracekit._native.workload import RUN, SEEN, USE_BANDS, USE_CLASSES, Territory
from tracekit.arrow import Integers
from tracekit.metadata import Record
from tracekit.store import TraceFolder, scratch_folder
from tracekit.tables import FIDELITY, FIDELITY_CURVE, ROLES
from tracekit.units import MIB, SECTOR_BYTES
from tracekit.version import __version__
from tracekit.workload import fidelity, model
from tracekit.workload.fidelity import BEYOND, Flags, Requests, Rows
from tracekit.workload.fit_arrivals import fit_arrival
from tracekit.workload.generate import write_folder
from tracekit.workload.questions import Question, Recommend, misses, placements, unfit_for
from tracekit.workload.reader import read_profile
from tracekit.workload.requests import Extent

LEAST = 64  # requests; fewer may be sequential by chance
FEW, FEW_SHARE = 2, 0.001  # requests that may begin elsewhere
HEADER = 0.01  # of the cyclic range, before it
CONTINUES_RATIO = 0.9  # of the requests of a kind, where the stream's last one ended


@dataclass(frozen=True)
class CyclicRange:
    """Kinds that are cyclic together, and the part of the region where they do."""

    kinds: tuple[int, ...]
    first_sector: int
    sectors: int


def find_cyclic_range(
    codes: Integers, start: Integers, *, sectors: Integers, region_sectors: int
) -> CyclicRange | None:
    """Return the cyclic range of requests in their order, None if there is none.

    Its requests are sequential, whatever other kinds do between them, and begin again at
    its lowest place when the next would pass the highest one; a few may begin elsewhere. A range
    that was never completed may reach to the end of the region.
    """
    if not len(codes):
        return None
    end = start + sectors
    is_sequential = np.zeros(len(codes), bool)
    is_sequential[1:] = start[1:] == end[:-1]
    kinds = [
        kind
        for kind in np.unique(codes).tolist()
        if is_sequential[codes == kind].mean() >= CONTINUES_RATIO
    ]
    mine = np.isin(codes, kinds)
    start, end, sectors = start[mine], end[mine], sectors[mine]
    if len(start) < LEAST:
        return None
    breaks = np.flatnonzero(start[1:] != end[:-1]) + 1
    if not len(breaks):
        return CyclicRange(tuple(kinds), int(start[0]), region_sectors - int(start[0]))
    high = int(end.max())
    is_full = end[breaks - 1] + sectors[breaks] > high
    if not is_full.any():
        return None
    places, counts = np.unique(start[breaks][is_full], return_counts=True)
    low = int(places[np.argmax(counts)])
    outliers = len(breaks) - int(counts.max())
    # What lies before the range is a header at most.
    is_cyclic = low - int(start.min()) <= (high - low) * HEADER
    if not is_cyclic or outliers > max(FEW, len(start) * FEW_SHARE):
        return None
    return CyclicRange(tuple(kinds), low, high - low)


MOST_SIZES = 32
PARTS = 8  # of the sizes beyond the most common ones
MOST_SHARES = 16
EXTENTS = 2048
SMALLEST_EXTENT = 64 << 10
SURE = 0.95  # of the places are multiples of the alignment
PAGE_SECTORS = 8
STEPS = np.unique((2 ** (np.arange(0, 4 * 26) / 4)).astype(np.int64))
# How a request begins: 1 more if on used pages. Those that begin elsewhere are kinds of their own
# where the next one is sequential, with new pages or with used ones, and on used pages where they
# take several: places differ by what is done there.
ON, RESUMED, ELSEWHERE, RUN_START, CYCLIC, FLUSHES, SEVERAL = 0, 2, 4, 6, 10, 11, 8
# What begins elsewhere and is an earlier request of several pages once more, where most of such
# are; of those where the next one is sequential 2 or 4 more.
AGAIN, AGAIN_SEVERAL = 20, 6
MODES = 32
BEGINS = ("on", "resumed", "elsewhere")
PAGES = ("new", "used")
RARE, RARE_SHARE = 8, 0.002  # requests of a kind, and of the stream's


@dataclass(frozen=True)
class Region:
    """All requests on a device's part of one role, and what each found used.

    `seen` has `back`, how many pages back by their last use its first page was used, 0: never;
    `uses`, how often; and `again`, how many requests back one of its place and length was, 0: none.
    """

    rows: Rows
    first_sector: int
    sectors: int
    seen: NDArray[np.void]


def region_of(rows: Rows, *, first_sector: int, sectors: int) -> Region:
    """Return the region of rows in queue order, which lie in the sectors."""
    is_data = rows["operation"] != FLUSH
    runs = np.zeros(int(is_data.sum()), np.dtype(RUN))
    runs["first_sector"] = rows["sector"][is_data] - first_sector
    runs["sectors"] = rows["sectors"][is_data]
    runs["is_write"] = rows["operation"][is_data] == WRITE
    seen = np.zeros(len(rows), SEEN)
    with Territory(sectors) as territory:
        seen[is_data] = territory.see(runs)
    return Region(rows, first_sector, sectors, seen)


class Places:
    """Where the requests of a stream begin, and the kinds that this makes of them."""

    def __init__(self, region: Region, mine: Flags, codes: Integers) -> None:
        """Look at the rows of the region that are `mine`, with the codes of what they do."""
        self.region_bytes = region.sectors * SECTOR_BYTES
        is_data = region.rows["operation"][mine] != FLUSH
        self.start = np.where(is_data, region.rows["sector"][mine] - region.first_sector, 0)
        self.sectors = region.rows["sectors"][mine].astype(np.int64)
        self.seen = region.seen[mine]
        self.cyclic_range = find_cyclic_range(
            codes[is_data],
            self.start[is_data],
            sectors=self.sectors[is_data],
            region_sectors=region.sectors,
        )
        modes = self._modes(is_data, codes, region.sectors)
        self.kinds = kept_kinds(codes * MODES + modes)

    def _modes(self, is_data: Flags, codes: Integers, region_sectors: int) -> Integers:
        """Return how each request begins, with 1 more on pages that were used."""
        modes = np.full(len(codes), FLUSHES, np.int64)
        follows = is_data
        if self.cyclic_range is not None:
            is_cyclic = is_data & np.isin(codes, self.cyclic_range.kinds)
            modes[is_cyclic] = CYCLIC
            follows = is_data & ~is_cyclic
        start, sectors = self.start[follows], self.sectors[follows]
        end = start + sectors
        is_sequential, resumed = np.zeros(len(end), bool), np.zeros(len(end), bool)
        is_sequential[1:] = start[1:] == end[:-1]
        # What would pass the end of the region and is at its start is sequential, too.
        is_sequential[1:] |= (start[1:] == 0) & (end[:-1] + sectors[1:] > region_sectors)
        # A run begins where a request is not sequential; it resumes where the last but one ended.
        begin = np.flatnonzero(~is_sequential)
        resumed[begin[2:]] = start[begin[2:]] == end[begin[1:-1] - 1]
        is_used = self.seen["back"][follows] > 0
        how = np.where(is_sequential, ON, np.where(resumed, RESUMED, ELSEWHERE))
        ahead = np.flatnonzero((how[:-1] == ELSEWHERE) & is_sequential[1:])
        how[ahead] = RUN_START + 2 * is_used[ahead + 1]
        pages = (end - 1) // PAGE_SECTORS - start // PAGE_SECTORS
        is_several = is_used & (how >= ELSEWHERE) & (pages > 0)
        is_again = is_used & (how >= ELSEWHERE) & (self.seen["again"][follows] > 0)
        how[is_several & ~is_again] += SEVERAL
        how[is_again] += AGAIN - ELSEWHERE
        how[is_again & (pages > 0)] += AGAIN_SEVERAL
        modes[follows] = how + is_used
        return modes

    def of(self, kind: int) -> dict[str, Any]:
        """Return the keys of one kind of data."""
        mine = self.kinds == kind
        mode = kind % MODES
        size = _sizes(self.sectors[mine] * SECTOR_BYTES)
        if mode == CYCLIC and (cyclic := self.cyclic_range):
            start, circle = (
                f"{sectors * SECTOR_BYTES}" for sectors in (cyclic.first_sector, cyclic.sectors)
            )
            return {"access": "circular", "size": size, "circle": {"start": start, "size": circle}}
        keys: dict[str, Any] = {
            "access": "following",
            "begins": "again" if mode >= AGAIN else BEGINS[min(mode, ELSEWHERE) // 2],
            "pages": PAGES[mode % 2],
            "size": size,
            "align": f"{_alignment(self.start[mine]) * SECTOR_BYTES}",
        }
        if mode % 2:
            back = self.seen["again" if mode >= AGAIN else "back"][mine]
            keys["distance"] = _distance(back)
            if mode >= ELSEWHERE:
                uses = self.seen["repeats" if mode >= AGAIN else "uses"][mine]
                keys["uses"] = _uses(back, uses)
            return keys
        locality = _locality(self.start[mine], self.region_bytes)
        return keys if locality is None else {**keys, "locality": locality}


def kept_kinds(kinds: Integers) -> Integers:
    """Return kinds of which rare ones begin elsewhere, on such pages."""
    found, counts = np.unique(kinds, return_counts=True)
    kept = kinds.copy()
    for kind, count in zip(found.tolist(), counts.tolist(), strict=True):
        mode = kind % MODES
        if mode not in (CYCLIC, FLUSHES) and count < max(RARE, RARE_SHARE * len(kinds)):
            kept[kinds == kind] = kind - mode + ELSEWHERE + mode % 2
    return kept


def _distance(back: Integers) -> dict[str, Any]:
    """Return in quantiles how many pages back those were used that are used again."""
    back = np.sort(back[back > 0]) if (back > 0).any() else np.ones(1, np.int64)
    steps = STEPS[: int(np.searchsorted(STEPS, back[-1])) + 1]
    hits = np.searchsorted(back, steps, "right")
    is_step = np.diff(hits, prepend=0) > 0
    # A distance d is drawn as any number from d to below d + 1.
    values = [1.0, *(steps[is_step] + 1).astype(float).tolist()]
    shares = [0.0, *(hits[is_step] / len(back)).tolist()]
    lower = int(np.flatnonzero(is_step)[0])
    if lower:
        values[0] = float(steps[lower - 1] + 1)
    return {"shares": [round(share, 5) for share in shares], "values": values}


def _uses(back: Integers, uses: Integers) -> list[list[float]]:
    """Return how often pages so far back had been used: shares of classes, by bands of distance."""
    is_used = back > 0
    band = np.minimum(_power(back[is_used]) // 2, USE_BANDS - 1)
    of = np.minimum(_power(uses[is_used]) + 1, USE_CLASSES - 1)
    counts = np.zeros((USE_BANDS, USE_CLASSES))
    np.add.at(counts, (band, of), 1)
    rows = [row.round(3).tolist() for row in counts / np.maximum(counts.sum(1, keepdims=True), 1)]
    return _trimmed([_trimmed(row) or [0] for row in rows], [0])


def _trimmed(items: list[Any], empty: Any = 0) -> list[Any]:
    """Return items without the empty ones at the end."""
    return items[: max((at + 1 for at, item in enumerate(items) if item != empty), default=0)]


def _power(numbers: Integers) -> Integers:
    """Return the largest power of two in each number, as its exponent, -1 of 0."""
    exponents: Integers = np.frexp(numbers.astype(float))[1].astype(np.int64)
    return exponents - 1


def _alignment(starts: Integers) -> int:
    """Return the largest power of two of sectors, up to 64 KiB, that divides nearly all."""
    powers = (128, 64, 32, 16, 8, 4, 2)
    return next((one for one in powers if (starts % one == 0).mean() >= SURE), 1)


def _sizes(sizes: Integers) -> Any:
    values, counts = np.unique(sizes, return_counts=True)
    if len(values) == 1:
        return f"{values[0]}"
    if len(values) > MOST_SIZES:
        values, counts = _fewer(values, counts)
    return {"values": [f"{value}" for value in values], "weights": counts.tolist()}


def _fewer(values: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return the most common sizes, and of the others in parts of equal weight the means."""
    order = np.argsort(-counts, kind="stable")
    common, rest = np.sort(order[: MOST_SIZES - PARTS]), np.sort(order[MOST_SIZES - PARTS :])
    weight = counts[rest]
    part = np.minimum(np.cumsum(weight) * PARTS // (weight.sum() + 1), PARTS - 1)
    weights = np.bincount(part, weight)
    totals = np.bincount(part, weight * values[rest])
    is_there = weights > 0
    means = totals[is_there] / weights[is_there]
    sizes = np.round(means / SECTOR_BYTES).astype(np.int64) * SECTOR_BYTES
    return (
        np.concatenate([values[common], sizes]),
        np.concatenate([counts[common], weights[is_there].astype(np.int64)]),
    )


def _locality(fresh: Integers, region_bytes: int) -> dict[str, Any] | None:
    """Return how new places are shared among extents of the region, None where they are even."""
    extent = SMALLEST_EXTENT
    while extent * EXTENTS < region_bytes:
        extent *= 2
    extents = region_bytes // extent
    if len(fresh) < 2 or extents < 2:
        return None
    number = np.minimum(fresh * SECTOR_BYTES // extent, extents - 1)
    counts = np.sort(np.bincount(number, minlength=extents))[::-1]
    used = int((counts > 0).sum())
    edges = np.unique(np.geomspace(1, used, MOST_SHARES).round().astype(np.int64))
    to = np.concatenate([[0], np.cumsum(counts)])[edges]
    blocks = [*np.diff(edges, prepend=0).tolist(), extents - used]
    requests = [*np.diff(to, prepend=0).tolist(), 0]
    if not blocks[-1]:
        blocks, requests = blocks[:-1], requests[:-1]
    return {"kind": "shares", "block": f"{extent}", "blocks": blocks, "requests": requests}


MOST_KINDS = 9  # of data, beside flushes
WRITE, FLUSH = 1, 2


def fit_kinds(region: Region, mine: Flags) -> list[dict[str, Any]]:
    """Return the keys of each [[request]] of a stream, in the order of the file.

    The stream has those rows of its region that are `mine`.
    """
    count = int(mine.sum())
    codes = _merged(
        region.rows["operation"][mine].astype(np.int64) * 32 + region.rows["flags"][mine]
    )
    places = Places(region, mine, codes)
    kinds, number, counts = np.unique(places.kinds, return_inverse=True, return_counts=True)
    behind = np.zeros((len(kinds), len(kinds)), np.int64)
    np.add.at(behind, (number[:-1], number[1:]), 1)
    found = []
    for at, kind in enumerate(kinds.tolist()):
        code = kind // MODES
        flags = [name for bit, name in enumerate(model.FLAGS) if code & (1 << bit)]
        operation = model.OPERATIONS[code // 32]
        keys: dict[str, Any] = {"share": int(counts[at]) / count, "operation": operation}
        if flags:
            keys["flags"] = flags
        if code // 32 != FLUSH:
            keys |= places.of(kind)
        if len(kinds) > 1:
            # What is last has nothing behind it: as likely as ever.
            keys["then"] = (behind[at] if behind[at].any() else counts).tolist()
        found.append(keys)
    return found


def _merged(codes: Integers) -> Integers:
    """Return codes of which the rarest are those of the most common one of their operation."""
    kinds, counts = np.unique(codes, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept: list[int] = []
    replaced = codes.copy()
    data_kinds = 0
    for code in kinds[order].tolist():
        is_flush = code // 32 == FLUSH
        same = [one for one in kept if one // 32 == code // 32]
        # Every operation keeps its most common kind.
        if same and data_kinds >= MOST_KINDS - 2 and not is_flush:
            replaced[codes == code] = same[0]
            continue
        kept.append(code)
        data_kinds += not is_flush
    return replaced


MIB_SECTORS = MIB // SECTOR_BYTES
OTHERS = "others"


def fit_profile(
    requests: Requests, options: FitOptions
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the profile, and for each stream what was found on the way.

    It has a stream for each role, device and process with many requests. Rare processes of a device
    and role share a stream. Regions of devices and roles lie one after the other on the target,
    whole MiB each.
    """
    rows = requests.rows
    regions = _regions(requests)
    span_ns = float(rows["time_ns"][-1]) + 1
    streams, facts = [], []
    known_regions: dict[int, Region] = {}
    for region, process, mine in _streams(requests, options):
        first, start, size = regions[region]
        times_ns = rows["time_ns"][mine].astype(np.float64)
        arrival = fit_arrival(times_ns, span_ns, measured=options.measured)
        # A trace of one region is not copied.
        here = rows["region"] == region if len(regions) > 1 else slice(None)
        if region not in known_regions:
            sectors = size // SECTOR_BYTES
            known_regions[region] = region_of(rows[here], first_sector=first, sectors=sectors)
        kinds = fit_kinds(known_regions[region], mine[here])
        role = requests.regions[region][1]
        stream: dict[str, Any] = {"role": role if role in ROLES else "unknown"}
        stream |= {} if process is None else {"process": process}
        stream |= {"start": f"{start}", "size": f"{size}", "arrival": arrival.keys}
        if arrival.phases:
            rates = [rate for _, rate in arrival.phases]
            length_ns = sum(length for length, _ in arrival.phases)
            stream["phase"] = [{"duration": f"{length_ns}ns", "rate": rates}]
        stream["request"] = _exact_shares(kinds)
        streams.append(stream)
        facts.append({"role": stream["role"], "process": process, **arrival.facts})
    target = max(start + size for _, start, size in regions.values())
    return {"target_size": f"{target}", "stream": streams}, facts


def _exact_shares(kinds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Round the shares so that they still add up to 1."""
    for kind in kinds:
        kind["share"] = round(kind["share"], 7)
    largest = max(kinds, key=lambda kind: kind["share"])
    largest["share"] = round(1 - sum(k["share"] for k in kinds if k is not largest), 7)
    return kinds


def _regions(requests: Requests) -> dict[int, tuple[int, int, int]]:
    """Return each region's first sector in the trace, and where it starts and its size in bytes.

    It begins as many sectors beside a page as most of its requests do, such as those of a partition
    from sector 63. A region without an address, of flushes alone, has a MiB.
    """
    rows = requests.rows
    placed: dict[int, tuple[int, int, int]] = {}
    start = 0
    for region in np.flatnonzero(np.bincount(rows["region"])).tolist():
        mine = rows[(rows["region"] == region) & (rows["sectors"] > 0)]
        low, high, off = 0, MIB_SECTORS, 0
        if len(mine):
            off = int(np.bincount(mine["sector"] % PAGE_SECTORS).argmax())
            low = (int(mine["sector"].min()) - off) // MIB_SECTORS * MIB_SECTORS + off
            high = int((mine["sector"] + mine["sectors"]).max())
        size = -(-(high - low) // MIB_SECTORS) * MIB
        placed[region] = (low, start + off * SECTOR_BYTES, size)
        start += size + (MIB if off else 0)
    return placed


def _streams(requests: Requests, options: FitOptions) -> list[tuple[int, str | None, Flags]]:
    """Return region, name and rows of each stream, the one with most requests first."""
    rows = requests.rows
    key = rows["region"].astype(np.int64) * len(requests.owners) + rows["owner"]
    counts = Counter(dict(enumerate(np.bincount(key).tolist())))
    kept = [one for one, count in counts.most_common(options.processes) if count]
    names: dict[str, str] = {}
    found = []
    for one in kept:
        region, owner = divmod(one, len(requests.owners))
        process = requests.owners[owner][1]
        if process is not None and not options.keeps_names:
            process = names.setdefault(process, f"process {len(names) + 1}")
        found.append((region, process, key == one))
    is_rest = ~np.isin(key, kept)
    for region in np.flatnonzero(np.bincount(rows["region"][is_rest])).tolist():
        found.append((region, OTHERS, is_rest & (rows["region"] == region)))
    return found


WIDTH = 96


def toml(profile: Mapping[str, Any], comment: str) -> str:
    """Return the text: plain keys first, then the tables of `stream` with their own tables."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += _plain({key: value for key, value in profile.items() if key != "stream"})
    for stream in profile["stream"]:
        lines += ["", "[[stream]]"]
        nested = ("arrival", "phase", "request")
        lines += _plain({key: value for key, value in stream.items() if key not in nested})
        lines += ["[stream.arrival]", *_plain(stream["arrival"])]
        for name in ("phase", "request"):
            for table in stream.get(name, []):
                lines += ["", f"[[stream.{name}]]", *_plain(table)]
    return "\n".join(lines) + "\n"


def _plain(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return _listed([_value(one) for one in value])
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    # A text of TOML is written as one of JSON.
    return json.dumps(value, ensure_ascii=True)


def _listed(values: list[str]) -> str:
    """Return a list, in lines of its own where it is long."""
    if sum(map(len, values)) + 2 * len(values) < WIDTH - 20:
        return f"[{', '.join(values)}]"
    lines: list[str] = []
    line = ""
    for value in values:
        if line and len(line) + len(value) > WIDTH:
            lines.append(line.rstrip())
            line = ""
        line += f"{value}, "
    return "[\n  " + "\n  ".join([*lines, line.rstrip()]) + "\n]"


ABOUT = """\
A work profile of {requests:,} requests, made by tracekit {version} fit. It holds shares, sizes,
rates and gaps, which requests follow which and how, how far back pages were used before, and how
new ones are shared among extents, by role and process; {names}. It holds
no address, no content and no time of day: the parts of the target have the size of what the trace
touched.
"""


class FitResult(Record):
    """The content of fidelity.json; `fidelity` has the rows of the table."""

    trace: str
    profile: str
    asked: list[str]
    requests: int
    left_out: dict[str, int]
    streams: list[dict[str, Any]]
    fidelity: list[dict[str, Any]] = msgspec.field(default_factory=list)
    questions: list[Question] = msgspec.field(default_factory=list)
    headline: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class FitOptions:
    """How to fit; `limit` is the most requests that are read."""

    processes: int = 8
    """That have streams of their own."""
    keeps_names: bool = False
    measured: bool = False
    """Whether gaps are always drawn by their quantiles."""
    limit: int = fidelity.LIMIT
    seed: int = 0
    compares: bool = True
    overwrite: bool = False
    asked: tuple[str, ...] = ()


def fit(
    folder: TraceFolder,
    output: Path,
    *,
    options: FitOptions,
    recommend: Recommend | None = None,
    on_stage: Callable[[str], None] = lambda _stage: None,
) -> dict[str, Any]:
    """Write the profile; keep `fidelity`, `fidelity_curve` and `fidelity.json` in the trace.

    `recommend` answers for a classified trace at a capacity, 0 for its own choice, unless it raises
    InputError. Raise UsageError for a file or folder that is there.
    """
    table = folder.require("requests", made_by="parse")
    folder.require_known(what="fit")
    name = f"{folder.path.resolve().name}.toml"
    store.refuse_taken(output, overwrite=options.overwrite, name=name)
    on_stage("fit")
    requests = fidelity.read_requests(table, options.limit)
    profile, facts = fit_profile(requests, options)
    count, span_ns = len(requests.rows), int(requests.rows["time_ns"][-1])
    left_out = dict(requests.left_out)
    del requests
    _write_profile(profile, output, count, options)
    result = FitResult(
        trace=str(folder.path),
        profile=str(output),
        asked=list(options.asked),
        requests=count,
        left_out=left_out,
        streams=facts,
    )
    if options.compares:
        on_stage("compare")
        ask = recommend if folder.has("blocks") and not left_out.get(BEYOND) else None
        found = _compare(folder, output, options, span=(count, span_ns), recommend=ask)
        result.fidelity, tables, result.questions = found
        result.headline = [*headline(result.fidelity), *unfit_for(result.questions)]
        store.write_results(folder, "fidelity.json", result=result, tables=tables)
    return dict(msgspec.to_builtins(result))


def _write_profile(profile: dict[str, Any], output: Path, count: int, options: FitOptions) -> None:
    named = "have their names" if options.keeps_names else "are numbered, without names"
    comment = ABOUT.format(requests=count, version=__version__, names=f"processes {named}")
    about = {"name": output.stem, "about": f"made of a trace of {count:,} requests"}
    with store.beside(output, overwrite=options.overwrite) as part:
        part.write_text(toml({**about, **profile}, comment), encoding="utf-8")


def _compare(
    folder: TraceFolder,
    output: Path,
    options: FitOptions,
    *,
    span: tuple[int, int],
    recommend: Recommend | None,
) -> tuple[list[dict[str, Any]], dict[str, Any], list[Question]]:
    """Make as many requests of the profile, and measure both alike.

    `span` are the requests and nanoseconds of the trace. Returns rows, tables and questions.
    """
    (count, span_ns), limit = span, options.limit
    window_ns = span_ns / fidelity.WINDOWS + 1
    original = fidelity.measure(folder.table("requests"), limit=limit, window_ns=window_ns)
    with scratch_folder(folder.path / "synthetic") as scratch:
        made = write_folder(
            read_profile(output),
            scratch / "trace",
            extent=Extent(requests=count, seed=options.seed),
        )
        synthetic = fidelity.measure(made.table("requests"), limit=limit, window_ns=window_ns)
        asked = [] if recommend is None else [*placements(folder, made, recommend=recommend)]
    rows = fidelity.distances(original, synthetic)
    shown = pa.Table.from_pylist(fidelity.curves(original, synthetic), FIDELITY_CURVE)
    tables = {"fidelity": pa.Table.from_pylist(rows, FIDELITY), "fidelity_curve": shown}
    return rows, tables, [*misses(rows), *asked]


def headline(rows: list[dict[str, Any]]) -> list[str]:
    """Return the distances of all requests in two sentences."""
    of_all = {row["measure"]: row for row in rows if row["role"] == "all"}
    parts = [
        f"{name.replace('_', ' ')} {of_all[name]['largest_gap_ratio'] * 100:.1f}%"
        for name in ("mix", "size", "gap", "run_length", "reuse_distance")
        if name in of_all and of_all[name]["largest_gap_ratio"] is not None
    ]
    lines = [f"Largest difference of cumulative shares: {', '.join(parts)}."]
    misses = of_all.get("miss_ratio")
    if misses and misses["largest_gap_ratio"] is not None:
        lines.append(
            f"Miss ratios of LRU caches differ by {misses['mean_gap'] * 100:.1f} points on average,"
            f" by {misses['largest_gap_ratio'] * 100:.1f} at most."
        )
    return lines
