"""Which units fit the numbers of a trace: all that can be meant are scored, and the best compared.

A hypothesis is one unit for each of times, places and lengths, and whether the columns of the last
two are exchanged; blocks of 4 KiB are one where something looks like them. What speaks against it
costs points, powers of ten of how much less likely it is: sizes, ends, alignment and rates that
disks seldom have, requests that follow each other in other units, and that the format or the user
says otherwise. The weights are judgements, not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.formats import FILETIME_OF_1970
from tracekit.readers.blocks import SAMPLED, Blocks
from tracekit.readers.units import SIZE_BYTES, TIME_NS, Units
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

CANNOT_BE = -6.0
"""A finding of so many points stops the import, whatever fits better."""
DOUBTED = -1.0
"""One of so many is a warning."""
SAID = 2.5
"""Against each unit that the format does not say."""
GIVEN = 3.0
"""More of them where the user has given it."""
LEAST_MARGIN = 0.5
"""By less the best is not told from the next: the import stops and asks."""
CLEAR_MARGIN = 1.5
"""By less the next is a warning."""
SHOWN_WITHIN = 2.0
"""Of the best: the second best is shown, too."""

FEWEST_REQUESTS = 100
FEW = 8
"""Requests from which on their sizes count in full."""
MOST_PER_S = 5e6
LEAST_PER_S = 1e-3
USUAL_PER_S = (0.1, 1e4)
POINTS_PER_TENFOLD = 0.7
GIB = 1 << 30
LARGEST_LENGTH_BYTES = GIB
LARGEST_PLACE_BYTES = 1 << 60
EPOCH_S = (631_152_000, 4_102_444_800)
"""1990 to 2100."""
SMALL_RATIO = 0.01
MOSTLY = 0.5
MOST_UNALIGNED = 0.05
"""Of the numbers: so many may be less aligned than the others."""
MOST_BYTES_PER_S = 1e10
FAR_BYTES = (1 << 44, 1 << 50)
"""Beyond most disks, and beyond all."""
FEWEST_TICKS = 60
FULL_RATIO = 0.9
CROWD = 4.0
FEW_PLACES = 0.05
"""Of the different lengths: no trace has so few different places."""
USUAL_LENGTH = 16 << 20

LARGE_BYTES = ((16 << 20, -4.0), (2 << 20, -2.0), (1 << 20, -0.5))
ALIGNED = {9: 0.0, 12: 0.0, 13: -0.3, **dict.fromkeys((10, 11, 14, 15, 16, 17, 20), -0.5)}
"""Points of usual alignments, by the power of two: sectors, pages, pieces of a RAID."""
AS_BYTES = (9, 12)
"""Sectors and pages, if what is taken for sectors were bytes."""
UNUSUAL, ALIGNED_FAR = -1.0, -2.0
FAR_POWER = 21
LENGTHS_SHARE = 0.5
"""Of the points of lengths, which are aligned as their places are."""
MOST_STEPS = 128
"""Of the usual length: places are seldom aligned to more."""
LIKE_BLOCKS = -1.5

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """What speaks against a hypothesis."""

    points: float
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Column:
    """What was seen of places or lengths, as they stand in the file."""

    sample: Numbers
    largest: int
    odd: int
    """How many are no whole sectors, were they bytes."""

    @cached_property
    def usual(self) -> int:
        """The value that half of them do not exceed."""
        return int(np.percentile(self.sample, 50, method="lower"))

    @cached_property
    def different(self) -> int:
        """How many different values there are in the sample."""
        # Of np.unique, numpy would load its masked arrays.
        values = np.sort(self.sample)
        return int(np.count_nonzero(values[1:] != values[:-1])) + (len(values) > 0)

    @cached_property
    def power(self) -> int:
        """Nearly all are multiples of two to this; 0 if all are 0."""
        some = self.sample[self.sample > 0]
        if not len(some):
            return 0
        lowest = np.sort(some & -some)
        return int(lowest[int(MOST_UNALIGNED * (len(lowest) - 1))]).bit_length() - 1


@dataclass
class Pairs:
    """Requests that begin where the one before ends, by what a length is of a place's unit."""

    requests: int = 0
    odd: dict[str, int] = field(default_factory=lambda: {"offset": 0, "length": 0})
    """How many are no whole sectors, were they bytes."""
    same: int = 0
    sectors_of_bytes: int = 0
    """Lengths are sectors and places bytes."""
    bytes_of_sectors: int = 0
    blocks: Blocks = field(default_factory=Blocks)
    ticks: int = 0
    """Different times among the requests."""
    latest_ns: int | None = None

    def add_times(self, times_ns: Any) -> None:
        """Count some times, in ascending order and behind those before."""
        is_new = self.latest_ns is None or int(times_ns[0]) != self.latest_ns
        self.ticks += _count(times_ns[1:] != times_ns[:-1]) + is_new
        self.latest_ns = int(times_ns[-1])

    def add(self, places: Any, lengths: Any, *, device: Any) -> None:
        """Count some requests in the file's order, as they stand in it."""
        self.requests += len(places)
        self.odd["offset"] += _count(places & (SECTOR_BYTES - 1))
        self.odd["length"] += _count(lengths & (SECTOR_BYTES - 1))
        before = lengths[:-1]
        follows = (device[1:] == device[:-1]) & (before > 0)
        steps = places[1:] - places[:-1]
        self.same += _count((steps == before) & follows)
        self.sectors_of_bytes += _count((steps == before * SECTOR_BYTES) & follows)
        self.bytes_of_sectors += _count((steps * SECTOR_BYTES == before) & follows)
        part = slice(None, None, max(1, len(steps) // SAMPLED))
        self.blocks.add(steps[part][follows[part]], before[part][follows[part]])

    def of(self, offset: str, length: str) -> int:
        """Return how many there are in these units."""
        if offset == length:
            return self.same
        return self.sectors_of_bytes if length == "sectors" else self.bytes_of_sectors


def _count(values: Any) -> int:
    """Return how many are true or not zero: a sum would make numbers of them first."""
    return int(np.count_nonzero(values))


@dataclass(frozen=True)
class Seen:
    """What was seen of a whole trace."""

    units: Units
    """Those that it was read with."""
    given: frozenset[str]
    """The names of those that the user gave."""
    places: Column
    lengths: Column
    pairs: Pairs
    first: float | None
    """The first time, in the file's unit; None where there are none."""
    span: float
    """From the first time to the last."""
    has_places: bool = True
    """Whether the file has them; else they are assumed, and say nothing."""
    is_time_untold: bool = False
    """Neither the format nor the user says the unit of times."""


def seen_of(units: Units, *, places: Numbers, lengths: Numbers, times: Any = None) -> Seen:
    """Return what is seen of the first requests, with their numbers as they stand in the file."""
    pairs = Pairs()
    pairs.add(places, lengths, device=np.zeros(len(places), np.int32))
    place, length = (
        Column(values, int(values.max()), odd)
        for values, odd in zip((places, lengths), pairs.odd.values(), strict=True)
    )
    first, span = None, 0.0
    if times is not None:  # of traces one after the other nothing is known
        first, span = float(times[0]), max(float(times[-1] - times[0]), 0.0)
    return Seen(units, frozenset(), place, length, pairs, first, span)


@dataclass(frozen=True)
class Hypothesis:
    """Units that may be meant, and what speaks against them."""

    units: Units
    is_exchanged: bool
    findings: Sequence[Finding]

    @cached_property
    def score(self) -> float:
        """The points of all findings; 0 where nothing speaks against it."""
        return sum(finding.points for finding in self.findings)

    @property
    def texts(self) -> list[str]:
        """What speaks against it, the heaviest first."""
        found = sorted(self.findings, key=lambda finding: finding.points)
        return [one.text + one.advice for one in found if one.text]

    @property
    def plain(self) -> list[str]:
        """What speaks against it, without advice."""
        return [one.text for one in self.findings if one.text]

    def options(self, taken: Units) -> str:
        """Return the options that choose it in place of the units that were taken."""
        if self.is_exchanged:
            return "are the two columns exchanged? name them with --columns"
        names = [n for n in ("time", "offset", "length") if getattr(taken, n) != self._of(n)]
        page = f" --page {BLOCK_BYTES}B" if self.units.has_pages else ""
        return " ".join(f"--unit {name}={self._of(name)}" for name in names) + page

    def _of(self, name: str) -> str:
        return str(getattr(self.units, name))

    def in_words(self) -> str:
        """Return its units and score, and what speaks against it."""
        units = self.units
        against = f": {'; '.join(self.texts)}" if self.texts else ""
        what = f"times {units.time}, places {units.offset}, lengths {units.length}"
        return f"{what}, score {self.score:z.1f}{against}"


@dataclass(frozen=True)
class Clock:
    """How times are taken that start again, and what speaks against it."""

    option: str
    """That chooses it."""
    what: str
    findings: Sequence[Finding] = ()

    @property
    def score(self) -> float:
        """The points of all findings."""
        return sum(finding.points for finding in self.findings)

    def in_words(self) -> str:
        """Return its option, what it means and what speaks against it."""
        against = "; ".join(one.text for one in self.findings if one.points) or "nothing"
        return f"{self.option}, {self.what}; against it: {against}"


ONE_CLOCK = (Clock("", "one clock"),)


@dataclass(frozen=True)
class Judgement:
    """The units and the clock that were taken, and all others, the best first."""

    taken: Hypothesis
    others: Sequence[Hypothesis]
    other_times: str = ""
    """Which units of time fit as well, in words, where nobody says it."""
    common: Sequence[Finding] = ()
    """What speaks against the format and its columns, in whatever units."""
    clocks: Sequence[Clock] = ONE_CLOCK
    """The one that was taken, and the others, the best first."""

    @property
    def score(self) -> float:
        """The points of all that speaks against what was taken."""
        common = sum(finding.points for finding in self.common)
        return self.taken.score + self.clocks[0].score + common

    @property
    def margin(self) -> float:
        """By how much the units that were taken are better than the best of the others."""
        return self.taken.score - self.others[0].score if self.others else CLEAR_MARGIN

    @property
    def is_exchanged(self) -> bool:
        """Whether places and lengths seem to stand in each other's column."""
        return self.margin < LEAST_MARGIN and self.others[0].is_exchanged

    @property
    def has_rival(self) -> bool:
        """Whether other units or columns can be."""
        best = self.others[:1]
        return any(all(one.points > CANNOT_BE for one in other.findings) for other in best)

    def contradictions(self) -> list[str]:
        """Return why these units cannot be taken, in words; none if they can."""
        hard = any(finding.points <= CANNOT_BE for finding in self.taken.findings)
        if not hard and self.margin >= LEAST_MARGIN:
            return []
        if self.is_exchanged:
            return [self.others[0].options(self.taken.units), *self.taken.plain]
        return [*self.taken.texts, *self._rivals()]

    def _rivals(self) -> Iterator[str]:
        """Yield the best of the others, and the second best if it is near."""
        taken = self.taken
        best = [other for other in self.others if other.score > taken.score - CLEAR_MARGIN][:2]
        for other in best:
            if other.score < best[0].score - SHOWN_WITHIN:
                continue
            how = "likelier" if other.score > taken.score else "as likely"
            against = "; ".join(other.texts) or "nothing speaks against it"
            score = f"score {other.score:z.1f} against {taken.score:z.1f}"
            yield f"{how}: {other.options(taken.units)} ({score}; {against})"
        if best and self.margin > -LEAST_MARGIN:
            said = " ".join(
                f"--unit {name}={getattr(taken.units, name)}"
                for name in ("time", "offset", "length")
                if any(getattr(other.units, name) != getattr(taken.units, name) for other in best)
            )
            yield f"if they are as they were taken: {said}"

    def doubts(self) -> list[str]:
        """Return what is possible under the units that were taken and yet unlikely, in words."""
        found = [one.text for one in self.taken.findings if one.points <= DOUBTED and one.text]
        if self.margin < CLEAR_MARGIN:
            found += self._rivals()
        return [*found, self.other_times] if self.other_times else found

    def in_words(self) -> str:
        """Return what was taken and the best of the others, each with its evidence."""
        more = [one.text for one in (*self.common, *self.clocks[0].findings) if one.points]
        said = f"against it: {'; '.join([*self.taken.texts, *more]) or 'nothing'}; "
        # Units and clocks cost points of their own: of all pairs the next differs in one of them.
        nexts = [
            (
                other.score - self.taken.score,
                f"{other.options(self.taken.units)}, {other.in_words()}",
            )
            for other in self.others[:1]
        ]
        nexts += [(one.score - self.clocks[0].score, one.in_words()) for one in self.clocks[1:2]]
        if not nexts:
            return f"{said}no other units were considered"
        better, words = max(nexts)
        return f"{said}margin {-better:z.1f}; the next: {words}"


def judged(
    seen: Seen, *, common: Sequence[Finding] = (), clocks: Sequence[Clock] = ONE_CLOCK
) -> Judgement:
    """Score the units that were taken and all that may be meant in their place.

    `common` is what speaks against the format and its columns; of the clocks the first was taken.
    """
    units = seen.units
    times = [units.time]
    if seen.first is not None and units.time != "date":
        times = [one for one in TIME_NS if one not in ("date", "filetime") or one == units.time]
        times += ["filetime"] * (units.is_wall and units.time != "filetime")
    blocks = _like_blocks(seen)
    sizes = [
        [one] if one == "pages" else ["bytes", "sectors", *(["pages"] if name in blocks else [])]
        for name, one in (("offset", units.offset), ("length", units.length))
    ]
    found = [
        scored(seen, replace(units, time=time, offset=offset, length=length), exchanged=exchanged)
        for exchanged in (False, True)[: 1 + seen.has_places]
        for time, offset, length in product(times, *sizes)
    ]
    taken = next(one for one in found if one.units == units and not one.is_exchanged)
    others = [one for one in found if one is not taken and not units.has_pages]
    others.sort(key=lambda one: -one.score)
    times_as_well = _other_times(seen, taken, others)
    return Judgement(taken, others, times_as_well, common, [clocks[0], *best_clocks(clocks[1:])])


def best_clocks(clocks: Sequence[Clock]) -> list[Clock]:
    """Return them, the best first."""
    return sorted(clocks, key=lambda one: -one.score)


def _like_blocks(seen: Seen) -> list[str]:
    """Return whether places or lengths look like blocks of 4 KiB, by their names."""
    if seen.units.has_pages or not seen.has_places:
        return []
    blocks, power = seen.pairs.blocks, seen.lengths.power
    # Multiples of 512 are taken for bytes, others for sectors.
    unit = "bytes" if power >= AS_BYTES[0] else "sectors"
    are_whole = _are_whole_blocks(seen.lengths, unit) or blocks.has_few_lengths()
    are_places = blocks.may_be_places() or (blocks.has_few_steps() and are_whole)
    return ["offset"] * are_places + ["length"] * blocks.may_be_lengths()


def _are_whole_blocks(column: Column, unit: str) -> bool:
    """Say whether nearly all lengths are multiples of 4 KiB."""
    return SIZE_BYTES[unit] << column.power >= BLOCK_BYTES


def _other_times(seen: Seen, taken: Hypothesis, others: Sequence[Hypothesis]) -> str:
    """Return in words which units of time fit as well, where nobody says it and rates alone tell.

    A time that is one of 1990 to 2100 tells it, too.
    """
    units, first = taken.units, seen.first
    if first is None or not seen.is_time_untold or is_of_epoch(first, units.time):
        return ""
    near = [
        f"{seen.span * TIME_NS[one.units.time] / 1e9:,.6g} s (--unit time={one.units.time})"
        for one in others
        if replace(one.units, time=units.time) == units and not one.is_exchanged
        if one.score + SAID > taken.score - LEAST_MARGIN
    ]
    span_s = seen.span * TIME_NS[units.time] / 1e9
    taken_as = (
        f"times are taken as {units.time}, which neither the format nor an option says: the trace"
        f" lasts {span_s:,.6g} s"
    )
    return f"{taken_as}, and could last {' or '.join(near)}" if near else ""


def scored(seen: Seen, units: Units, *, exchanged: bool = False) -> Hypothesis:
    """Return what speaks against these units, perhaps with places and lengths exchanged."""
    columns = seen.places, seen.lengths
    places, lengths = reversed(columns) if exchanged else columns
    of_places = [
        *_of_places(seen, places, lengths, units),
        *_of_pairs(seen, units, exchanged=exchanged),
        *_of_columns(seen, places, lengths),
    ]
    findings = [
        *(of_places if seen.has_places else []),
        *_of_lengths(seen, lengths, units, places=places),
        *_of_times(seen, units, usual_bytes=lengths.usual * units.factor("length")),
        *_of_sayings(seen, units, exchanged=exchanged),
    ]
    return Hypothesis(units, exchanged, [one for one in findings if one.points < 0])


def _of_sayings(seen: Seen, units: Units, *, exchanged: bool) -> Iterator[Finding]:
    """Yield that the format or the user says other units; of places and lengths it is one."""
    names = ("time", "offset", "length")
    other = {name for name in names if getattr(units, name) != getattr(seen.units, name)}
    points = SAID * (("time" in other) + bool({"offset", "length"} & other) + exchanged)
    yield Finding(-points - GIVEN * len(other & seen.given), "")
    settled = seen.units.settled_time
    if settled not in (None, units.time):
        text = f"times of this format are {settled} by its own reader, not {units.time}"
        yield Finding(CANNOT_BE, text)


def _weight(seen: Seen) -> float:
    """Return how much few requests say."""
    return min(1.0, seen.pairs.requests / FEW)


def _of_alignment(column: Column, unit: str) -> float:
    """Return the points of places or lengths that are all multiples of the same power of two."""
    if unit == "sectors" and column.power in AS_BYTES:
        return ALIGNED_FAR
    power = column.power + SIZE_BYTES[unit].bit_length() - 1
    return ALIGNED.get(power, ALIGNED_FAR if power >= FAR_POWER else UNUSUAL)


def _of_places(seen: Seen, column: Column, lengths: Column, units: Units) -> Iterator[Finding]:
    count, odd, unit = seen.pairs.requests, column.odd, units.offset
    if unit == "bytes" and odd > SMALL_RATIO * count:
        is_of_files = lengths.odd > SMALL_RATIO * count and lengths.usual >= SECTOR_BYTES
        many = odd > MOST_UNALIGNED * count and not is_of_files
        points = CANNOT_BE if many else DOUBTED
        yield Finding(points, f"places cannot be bytes: {odd:,} of {count:,} are no whole sectors")
    elif not seen.units.has_pages:
        points = _of_alignment(column, unit) * min(1.0, column.different / FEW)
        many = unit == "sectors" and column.power >= SECTOR_BYTES.bit_length() - 1
        step = SECTOR_BYTES if many else 1 << column.power
        yield Finding(points, f"at least 95% of {count:,} places are a multiple of {step:,} {unit}")
    blocks = seen.pairs.blocks
    if unit == "sectors" and blocks.has_few_steps() and _are_whole_blocks(lengths, units.length):
        text = (
            f"{blocks.whole_steps:,} of {blocks.steps:,} steps between places are whole blocks of"
            " 4 KiB, and nearly all lengths"
        )
        yield Finding(LIKE_BLOCKS, text)
    end = column.largest * SIZE_BYTES[unit]
    if end > LARGEST_PLACE_BYTES:
        yield Finding(CANNOT_BE, f"a request is at byte {end:,}, beyond 1 EiB", ": --unit offset?")
    elif end > FAR_BYTES[0]:
        points = DOUBTED if end <= FAR_BYTES[1] else 3 * DOUBTED
        yield Finding(points * 0.9, f"places go up to byte {end:,}")


def _of_lengths(seen: Seen, column: Column, units: Units, *, places: Column) -> Iterator[Finding]:
    count, factor, odd = seen.pairs.requests, units.factor("length"), column.odd
    usual, largest = column.usual * factor, column.largest * factor
    if largest > LARGEST_LENGTH_BYTES:
        text = f"a request of {largest:,} bytes is longer than 1 GiB"
        yield Finding(CANNOT_BE, text, ": another unit than --unit length?")
    points = next((points for least, points in LARGE_BYTES if usual >= least), 0.0)
    yield Finding(
        points * _weight(seen), f"half of the requests would have {usual:,} bytes and more"
    )
    if units.length == "bytes" and odd > MOSTLY * count and column.usual > 0:
        is_part = column.usual < SECTOR_BYTES
        text = f"{odd:,} of {count:,} lengths are no whole sectors"
        if is_part:
            text = (
                f"lengths cannot be bytes: {odd:,} of {count:,} are no whole sectors, and half are"
                f" {usual:,} or less"
            )
        enough = count >= FEWEST_REQUESTS
        yield Finding((-4.0 if is_part else DOUBTED) * (_weight(seen) if is_part else enough), text)
    elif not seen.units.has_pages:
        text = f"at least 95% of the lengths are multiples of {1 << column.power:,} {units.length}"
        share = LENGTHS_SHARE if places.power >= column.power else 1.0
        yield Finding(share * _of_alignment(column, units.length) * _weight(seen), text)
    blocks = seen.pairs.blocks
    if units.length == "sectors" and blocks.has_few_lengths():
        text = f"{blocks.whole_lengths:,} of {blocks.lengths:,} lengths are whole blocks of 4 KiB"
        yield Finding(LIKE_BLOCKS, text)
    step = (1 << places.power) * units.factor("offset")
    if seen.has_places and units.length == "bytes" and step >= MOST_STEPS * usual > 0:
        text = f"half of the requests have {usual:,} bytes or less, at multiples of {step:,}"
        yield Finding(DOUBTED * min(1.0, places.different / FEW), text)


def _of_pairs(seen: Seen, units: Units, *, exchanged: bool) -> Iterator[Finding]:
    """Yield that requests follow each other in other units."""
    if seen.units.has_pages:
        return
    blocks = seen.pairs.blocks
    theirs, mine = blocks.against(units)
    if 2 * blocks.strides() > blocks.lengths and not units.has_pages:
        text = f"{blocks.strides():,} requests begin eight lengths behind the one before"
        yield Finding(LIKE_BLOCKS, text)
    if (others := blocks.of_part(units)) and not exchanged:
        text = (
            f"{others:,} of a part of the requests begin where the one before ends in other units"
        )
        yield Finding(DOUBTED, f"{text}, {blocks.of(units.offset, units.length):,} in these")
    if theirs > 2 * mine and not exchanged:
        text = f"{theirs:,} of a part of the requests begin where the one before ends"
        what = "in other units than" if units.has_pages else "if there are"
        yield Finding(
            _of_followers(theirs, mine), f"{text} {what} blocks of 4 KiB, against {mine:,}"
        )
    if units.has_pages:
        return
    pairs, mine = seen.pairs, 0 if exchanged else seen.pairs.of(units.offset, units.length)
    counts = {
        (offset, length): pairs.of(offset, length)
        for offset, length in product(("bytes", "sectors"), repeat=2)
    }
    theirs = max(counts.values())
    if theirs <= 2 * mine:
        return
    points = _of_followers(theirs, mine)
    against = f"{theirs:,} requests begin where the one before ends, against {mine:,}"
    if counts[units.offset, "bytes" if units.length == "sectors" else "sectors"] == theirs:
        other = "bytes" if units.length == "sectors" else "sectors"
        yield Finding(points, f"lengths look like {other}, not {units.length}: {against}")
    else:
        other = "bytes" if units.offset == "sectors" else "sectors"
        yield Finding(points, f"places look like {other}, not {units.offset}: {against}")


def _of_followers(theirs: int, mine: int) -> float:
    return -1.6 * log10((1 + theirs) / (1 + mine))


def _of_columns(seen: Seen, places: Column, lengths: Column) -> Iterator[Finding]:
    """Yield that places and lengths seem to stand in each other's column."""
    if seen.pairs.requests < FEWEST_REQUESTS:
        return
    several, few = lengths.different, places.different
    are_all = several >= MOSTLY * len(lengths.sample) and few <= several * SMALL_RATIO
    # Of a small disk places return; what stands for them is then as small as lengths are.
    are_few = several >= FEWEST_REQUESTS and few <= several * FEW_PLACES
    if are_all or (are_few and places.largest <= min(USUAL_LENGTH, lengths.largest)):
        yield Finding(
            2 * CANNOT_BE,
            f"of {len(lengths.sample):,} requests {several:,} lengths and {few:,} places differ",
        )


def _of_times(seen: Seen, units: Units, *, usual_bytes: int) -> Iterator[Finding]:
    count, unit = seen.pairs.requests, units.time
    if units.is_wall and seen.first is not None:
        yield from _of_clock(seen.first, unit)
    if not seen.span or count < FEW:
        return
    span_s = seen.span * TIME_NS[unit] / 1e9
    rate = count / span_s
    what = f"{count:,} requests in {span_s:,.6f} s are {rate:,.3g} a second"
    if not LEAST_PER_S <= rate <= MOST_PER_S:
        points = CANNOT_BE if count >= FEWEST_REQUESTS else DOUBTED
        yield Finding(points, f"{what}: times cannot be {unit}")
    if count < FEWEST_REQUESTS:
        return
    if LEAST_PER_S <= rate <= MOST_PER_S:
        far = max(log10(rate / USUAL_PER_S[1]), log10(USUAL_PER_S[0] / rate), 0.0)
        yield Finding(-POINTS_PER_TENFOLD * far, what)
    if rate * usual_bytes > MOST_BYTES_PER_S:
        text = f"half of the requests alone would be {rate * usual_bytes:,.3g} bytes a second"
        yield Finding(-2.0, text)
    ticks = seen.pairs.ticks
    crowd = count / ticks if ticks else 0.0
    # A clock that is read in ms or finer has gaps; one of whole seconds has requests at each.
    is_full = ticks >= FEWEST_TICKS and ticks > FULL_RATIO * (seen.span + 1)
    if unit != "s" and is_full and crowd >= CROWD:
        text = f"{ticks:,} different times fill every {unit} of the trace"
        text += f", with {crowd:,.1f} requests each"
        yield Finding(-1.5, text)


def _of_clock(ticks: float, unit: str) -> Iterator[Finding]:
    """Yield that the first time is of no year that traces are of."""
    first_s = (ticks - (FILETIME_OF_1970 if unit == "filetime" else 0)) * TIME_NS[unit] / 1e9
    if unit != "date" and not EPOCH_S[0] <= first_s <= EPOCH_S[1]:
        fitting = [one for one in ("ns", "us", "ms", "s") if is_of_epoch(ticks, one)]
        also = f", and can be {fitting[0]}: --unit time={fitting[0]}" if fitting else ""
        yield Finding(
            CANNOT_BE,
            f"the first time is {first_s:,.0f} s after 1970, not within 1990 to 2100:"
            f" times cannot be {unit}{also}",
        )


def is_of_epoch(ticks: float, unit: str) -> bool:
    """Say whether a time since 1970 is one of 1990 to 2100."""
    return EPOCH_S[0] <= ticks * TIME_NS[unit] / 1e9 <= EPOCH_S[1]
