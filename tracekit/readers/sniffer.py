"""What the columns of a text of no known format may be, by what their values look like."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from tracekit.readers.hypotheses import (
    LEAST_MARGIN,
    MOSTLY,
    SHOWN_WITHIN,
    is_of_epoch,
    scored,
    seen_of,
)
from tracekit.readers.text import COMMENT, DATE, DELIMITERS, NEARLY_ALL, OPERATIONS
from tracekit.readers.units import Units

FEWEST_COLUMNS = 4
FEWEST_ROWS = 8
NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]*)?")
DECIMAL_COMMA = re.compile(r"^([0-9]+),([0-9]+)$", re.MULTILINE)
MOST_ROWS = 1000
TIME_UNITS = ("s", "ms", "us", "ns")
UNLIKE = 3.0
"""Points of places that differ less than another column, lengths of 0, and times that fall."""

Texts = Sequence[str]
Numbers = NDArray[np.int64]


def likely_columns(head: bytes) -> list[str]:
    """Return the options that describe the text best, and the next best, in words."""
    found = sorted(_choices(head), key=lambda one: -one[0])
    best = [one for one in found[:2] if one[0] >= found[0][0] - SHOWN_WITHIN]
    words = ("its columns may be", "or")
    return [
        f"{what}: {options} (score {score:z.1f}{also})"
        for what, (score, options, also) in zip(words, best, strict=False)
    ]


def _choices(head: bytes) -> Iterator[tuple[float, str, str]]:
    """Yield what the columns may be: score, the options that say so, and what fits as well."""
    delimiter, columns = _split(head)
    numbers = {
        at: np.array(texts, np.float64)
        for at, texts in enumerate(columns)
        if all(map(NUMBER.fullmatch, texts))
    }
    whole = {at: values.astype(np.int64) for at, values in numbers.items() if not any(values % 1)}
    ops = [
        at
        for at, texts in enumerate(columns)
        if at not in numbers and OPERATIONS.keys() >= {text.lower() for text in texts}
    ]
    dates = [at for at, texts in enumerate(columns) if all(re.fullmatch(DATE, t) for t in texts)]
    times = dates or [
        at
        for at, values in numbers.items()
        if values[-1] > values[0] and _falls(values) <= (1 - NEARLY_ALL) * len(values)
    ]
    for op, time in product(ops[:1], times):
        others = {at: values for at, values in whole.items() if at != time}
        most = max((len(np.unique(values)) for values in others.values()), default=0)
        for place, length in permutations(others, 2):
            names = {op: "op", time: "time", place: "offset", length: "length"}
            text = f"--columns {','.join(_named(names, columns))}"
            if delimiter != ",":
                text += " --delimiter " + ("$'\\t'" if delimiter == "\t" else f"'{delimiter}'")
            against = min(UNLIKE, _falls(numbers[time])) if time in numbers else 0.0
            against += UNLIKE * (len(np.unique(whole[place])) < most)
            against += UNLIKE * (np.mean(whole[length] == 0) > MOSTLY / 2)
            for score, units, also in _scores(whole[place], whole[length], numbers.get(time)):
                yield score - against, f"{text} {units}", also


def _split(head: bytes) -> tuple[str, list[Texts]]:
    """Return what delimits the columns, and their values; none where lines are too unlike."""
    texts = [line for line in head.split(b"\n") if line.strip() and not COMMENT.match(line)]
    lines = [text.decode("latin-1").strip() for text in texts[:MOST_ROWS]]
    for delimiter in DELIMITERS:
        by = None if delimiter == " " else delimiter
        rows = [[word.strip(' "') for word in line.split(by)] for line in lines]
        if delimiter != ",":
            rows = [[DECIMAL_COMMA.sub(r"\1.\2", word) for word in row] for row in rows]
        size, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
        rows = [row for row in rows if len(row) == size and any(map(NUMBER.fullmatch, row))]
        if size >= FEWEST_COLUMNS and len(rows) >= max(NEARLY_ALL * count, FEWEST_ROWS):
            return delimiter, list(zip(*rows, strict=True))
    return "", []


def _falls(values: NDArray[np.float64]) -> int:
    """Return how often numbers fall; times rise, but for a few."""
    return int(np.count_nonzero(values[1:] < values[:-1]))


def _named(names: Mapping[int, str], columns: Sequence[Texts]) -> Iterator[str]:
    """Yield a name for each column; the first other one of few values is the device."""
    has_device = False
    for at, texts in enumerate(columns):
        is_device = at not in names and not has_device and len(set(texts)) <= len(texts) // 2
        has_device |= is_device
        yield names.get(at, "device" if is_device else "-")


def _scores(
    places: Numbers, lengths: Numbers, times: NDArray[np.float64] | None
) -> Iterator[tuple[float, str, str]]:
    """Yield the score of each unit of places and lengths, that of times, and which fit as well."""
    first = None if times is None else float(times[0])
    for offset_unit, length_unit in product(("bytes", "sectors"), repeat=2):
        found = {}
        for unit in TIME_UNITS if first is not None else ("date",):
            taken = Units(unit, offset_unit, length_unit, is_wall=_is_dated(first))
            found[unit] = scored(
                seen_of(taken, places=places, lengths=lengths, times=times), taken
            ).score
        unit, best = max(found.items(), key=lambda one: one[1])
        near = [other for other, score in found.items() if score > best - LEAST_MARGIN]
        said = f" --unit time={unit}" if times is not None else ""
        also = "".join(f"; or time={other}" for other in near if other != unit)
        yield best, f"--unit offset={offset_unit} --unit length={length_unit}{said}", also


def _is_dated(first: float | None) -> bool:
    """Say whether a time is one of 1990 to 2100 in some unit."""
    return first is not None and any(is_of_epoch(first, unit) for unit in TIME_UNITS)
