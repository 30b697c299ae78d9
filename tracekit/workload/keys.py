"""One table of a definition file, read key by key: each error names file, place, key and value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tracekit.errors import InputError, UsageError
from tracekit.toml_files import load_toml
from tracekit.units import parse_duration, parse_size


def has_flow(file: Path) -> bool:
    """Say whether a TOML file is a personality: operations of files, and not requests of a profile.

    Raise InputError when it is no TOML.
    """
    return "operation" in load_toml(file)[1]


def cumulated(weights: Sequence[float]) -> tuple[float, ...]:
    """Return weights that are not all 0 as cumulated shares that end at 1."""
    total = math.fsum(weights)
    return (*(math.fsum(weights[: at + 1]) / total for at in range(len(weights) - 1)), 1.0)


def _is_number(value: Any, low: float, high: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and low <= value <= high


class Keys:
    """A table of which only the known keys are read; `place` begins every message.

    `given_by` has the option of each key whose value comes from the command line: its message
    begins with that.
    """

    def __init__(
        self,
        table: Any,
        place: str,
        *,
        known: Sequence[str],
        given_by: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Raise InputError when it is no table or has a key that is not known."""
        self.place = place
        self._given_by = given_by
        if not isinstance(table, Mapping):
            raise InputError(f"{place}: {table!r} is no table", hint="write it as [table]")
        self.content: Mapping[str, Any] = table
        for key in table:
            if key not in known:
                close = get_close_matches(key, known, n=1)
                every = f"the keys are: {', '.join(known)}"
                hint = f"did you mean '{close[0]}'?" if close else every
                raise InputError(f"{place}: unknown key '{key}'", hint=hint)

    def has(self, key: str) -> bool:
        """Say whether the key is there."""
        return key in self.content

    def wrong(self, key: str, problem: str, *, hint: str = "") -> InputError | UsageError:
        """Return the error of a value, with what is wrong about it."""
        if key in self._given_by:
            return UsageError(f"{self._given_by[key]}: {self.content[key]!r} {problem}", hint=hint)
        return InputError(
            f"{self.place}, key '{key}': {self.content.get(key)!r} {problem}", hint=hint
        )

    def reject(self, keys: Sequence[str], problem: str, *, hint: str = "") -> None:
        """Raise InputError for the first of the keys that is there, with why it must not be."""
        for key in filter(self.has, keys):
            raise self.wrong(key, problem, hint=hint or f"leave {key} out")

    def value(self, key: str, default: Any = None) -> Any:
        """Return the value; raise InputError when the key is missing and has no default."""
        if key in self.content:
            return self.content[key]
        if default is None:
            raise InputError(f"{self.place}: the key '{key}' is missing", hint=f"add {key} = ...")
        return default

    def table(self, key: str, *known: str) -> Keys:
        """Return the table that is the value of a key, with the keys that are known in it."""
        return Keys(self.value(key), f"{self.place}, key '{key}'", known=known)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that can be printed."""
        value = self.value(key, default)
        if not isinstance(value, str) or not value.isprintable():
            raise self.wrong(key, "is no plain text")
        return value

    def choice(self, key: str, options: Sequence[str], *, default: str | None = None) -> str:
        """Return one of the words."""
        word = self.text(key, default)
        if word not in options:
            close = get_close_matches(word, options, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise self.wrong(key, "is none of them", hint=f"{meant}one of: {', '.join(options)}")
        return word

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "is neither true nor false")
        return value

    def number(self, key: str, *, low: float, high: float, default: float | None = None) -> float:
        """Return a number from `low` to `high`."""
        value = self.value(key, default)
        if not _is_number(value, low, high):
            raise self.wrong(key, f"is no number from {low:g} to {high:g}")
        return float(value)

    def whole(self, key: str, *, low: float, high: float, default: int | None = None) -> int:
        """Return a whole number from `low` to `high`."""
        number = self.number(key, low=low, high=high, default=default)
        if number != int(number):
            raise self.wrong(key, "is no whole number")
        return int(number)

    def numbers(self, key: str, *, low: float, high: float) -> tuple[float, ...]:
        """Return a list of numbers from `low` to `high`, at least one."""
        values = self.value(key)
        if not isinstance(values, list) or not values:
            raise self.wrong(key, "is no list of numbers")
        for value in values:
            if not _is_number(value, low, high):
                raise self.wrong(key, f"has {value!r}, no number from {low:g} to {high:g}")
        return tuple(float(value) for value in values)

    def weights(self, key: str, count: int) -> tuple[float, ...]:
        """Return `count` weights as cumulated shares that end at 1."""
        weights = self.numbers(key, low=0, high=1e18)
        if len(weights) != count:
            raise self.wrong(key, f"has {len(weights)} weights for {count} values")
        if not any(weights):
            raise self.wrong(key, "are all 0")
        return cumulated(weights)

    def counts(self, key: str, count: int) -> tuple[int, ...]:
        """Return `count` whole numbers below 2^32, not all 0."""
        numbers = self.numbers(key, low=0, high=(1 << 32) - 1)
        if len(numbers) != count:
            raise self.wrong(key, f"has {len(numbers)} numbers for {count} kinds of requests")
        if any(number != int(number) for number in numbers):
            raise self.wrong(key, "has a number that is not whole", hint="write how often")
        if not any(numbers):
            raise self.wrong(key, "are all 0")
        return tuple(int(number) for number in numbers)

    def size(self, key: str, default: int | None = None) -> int:
        """Return bytes of a text such as 4KiB, above 0."""
        if default is not None and not self.has(key):
            return default
        return self.size_of(key, self.value(key))

    def offset(self, key: str) -> int:
        """Return bytes of a text such as 4KiB; 0 is the start."""
        return 0 if self.value(key) in (0, "0") else self.size(key)

    def size_of(self, key: str, value: Any) -> int:
        """Return the bytes that one value of the key means, above 0."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.wrong(key, "is no size", hint='write for example "4KiB"')
        size = self._unit(key, str(value), partial(parse_size, needs_unit=False))
        if size == 0:
            raise self.wrong(key, "is nothing", hint='write for example "4KiB"')
        return size

    def duration(self, key: str) -> int:
        """Return the nanoseconds of a text such as 100ms, above 0."""
        value = self.value(key)
        if not isinstance(value, str):
            raise self.wrong(key, "is no time", hint='write it with its unit, such as "100ms"')
        time_ns = self._unit(key, value, parse_duration)
        if time_ns == 0:
            raise self.wrong(key, "is no time at all", hint='write for example "100ms"')
        return time_ns

    def _unit(self, key: str, text: str, parse: Any) -> int:
        try:
            return int(parse(text, option=f"{self.place}, key '{key}'"))
        except UsageError as error:
            raise InputError(str(error), hint=error.hint) from None

    def tables(self, key: str, *known: str) -> list[Keys]:
        """Return the tables of an array, none if the key is missing."""
        found = self.content.get(key, [])
        if not isinstance(found, list):
            raise InputError(
                f"{self.place}: '{key}' is no list of tables", hint=f"write [[{key}]] above each"
            )
        return [
            Keys(table, f"{self.place}: [[{key}]] {number}", known=known)
            for number, table in enumerate(found, 1)
        ]
