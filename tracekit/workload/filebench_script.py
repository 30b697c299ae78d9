"""A file of filebench's language as commands with their lines, and the values of its variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from tracekit.errors import InputError
from tracekit.safe_open import read_given
from tracekit.workload.random_values import RandomValue, Segment, Value, check_family

MOST_BYTES = 4 << 20
MOST_DIGITS = 40
MOST_NUMBER = 1 << 63
GRAMMAR = Path(__file__).with_name("filebench.lark")
FACTORS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
Scalar = int | float | bool | str | RandomValue
Scope = Mapping[str, Any]
"""Values of a composite flowop's variables, by name."""


@cache
def _parser() -> Lark:
    return Lark(
        GRAMMAR.read_text(), parser="lalr", propagate_positions=True, maybe_placeholders=False
    )


@dataclass(frozen=True)
class Place:
    """Where something stands, for messages."""

    file: Path
    line: int

    def error(self, problem: str, hint: str = "") -> InputError:
        """Return the error of what stands there."""
        return InputError(f"{self.file}, line {self.line}: {problem}", hint=hint)


def parse_file(file: Path) -> tuple[str, list[Tree[Token]]]:
    """Return text and commands of a file; raise InputError with line, word and what is expected."""
    try:
        text = read_given(file, most_bytes=MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file} is no text", hint="name a file of filebench's language") from None
    try:
        return text, [one for one in _parser().parse(text).children if isinstance(one, Tree)]
    except UnexpectedInput as error:
        raise _unexpected(file, text, error) from None


def _unexpected(file: Path, text: str, error: UnexpectedInput) -> InputError:
    lines = text.splitlines()
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        return InputError(f"{file}: it ends within a command", hint="close what is open: } or ,")
    word = lines[error.line - 1][error.column - 1 :].split(maxsplit=1)
    expected = getattr(error, "accepts", None) or getattr(error, "allowed", None) or ()
    names = sorted({_parser_word(name) for name in expected if name not in CLASSES})[:12]
    hint = f"expected is one of: {' '.join(names)}" if names else ""
    found = word[0] if word else "the end of the line"
    return Place(file, error.line).error(f"'{found[:40]}' is not expected here", hint)


CLASSES = ("$END", "SAID", "REFUSED")
"""Names of the grammar that nobody writes."""


def _parser_word(name: str) -> str:
    known = {"LBRACE": "{", "RBRACE": "}", "EQUAL": "=", "COMMA": ",", "LPAR": "(", "RPAR": ")"}
    return known.get(name, name.lower() if name.isupper() else name)


def place_of(file: Path, one: Tree[Token] | Token) -> Place:
    """Return where a command or word stands."""
    line = one.line if isinstance(one, Token) else one.meta.line
    return Place(file, line or 1)


def number_of(text: str) -> int | float:
    """Return a number as filebench writes it, such as 16k."""
    factor = FACTORS.get(text[-1:].lower(), 1)
    digits = text if factor == 1 else text[:-1]
    found = float(digits) if "." in digits or len(digits) > MOST_DIGITS else int(digits)
    return found * factor


@dataclass
class Variables:
    """The variables of a file, and those that the command line gives another value."""

    given: Mapping[str, Scalar] = field(default_factory=dict)
    values: dict[str, Scalar] = field(default_factory=dict)
    random: set[str] = field(default_factory=set)

    def set(self, name: str, value: Scalar) -> None:
        """Give a variable a value, unless the command line does."""
        self.values[name] = self.given.get(name, value)

    def get(self, name: str, place: Place, *, scope: Scope) -> Scalar:
        """Return the value of a variable; raise InputError for one that was never set."""
        if name in scope:
            found: Scalar = scope[name]
            return found
        if name in self.values:
            return self.values[name]
        close = get_close_matches(name, self.values, n=1)
        hint = f"did you mean ${close[0]}?" if close else f"set ${name} = ... above"
        raise place.error(f"the variable ${name} is never set", hint)


def variable_name(token: str) -> str:
    """Return the name of a variable without its sign and brackets."""
    return token[1:].strip("{}")


@dataclass
class Attributes:
    """The attributes of a command: what is read is remembered, so that no word is passed over."""

    what: str
    place: Place
    variables: Variables
    words: dict[str, Any] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    """Variables of a composite flowop, by name; None: without a value."""
    scope: Scope = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    @classmethod
    def of(
        cls, tree: Tree[Token] | None, what: str, *, place: Place, variables: Variables
    ) -> Attributes:
        """Return the attributes of a tree, or none."""
        made = cls(what, place, variables)
        for one in tree.children if tree is not None else ():
            if not isinstance(one, Tree):
                continue
            word = str(one.children[0])
            value = one.children[1] if len(one.children) > 1 else None
            if word.startswith("$"):
                made.local[variable_name(word)] = value
            else:
                made.words[word] = value
                made.places[word] = place_of(place.file, one)
        return made

    def within(self, scope: Scope) -> Attributes:
        """Return the same where variables of a composite flowop have values."""
        return Attributes(
            self.what, self.place, self.variables, self.words, self.local, scope, self.places
        )

    def has(self, *names: str) -> bool:
        """Say whether one of the words is there."""
        return any(name in self.words for name in names)

    def check(self, known: Mapping[str, str], not_used: Counter[str]) -> None:
        """Raise InputError for a word that is not known; count those that change nothing here.

        `known` says of each word "" where it is used, why it is not, or "!" and why it is refused.
        """
        for name in self.words:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}"
                raise self.places[name].error(f"{self.what} takes no '{name}'", hint)
            if known[name].startswith("!"):
                raise self.places[name].error(f"{self.what}: '{name}' {known[name][1:]}")
            if known[name]:
                not_used[f"{name} ({known[name]})"] += 1

    def scalar(self, name: str, default: Scalar | None = None) -> Scalar:
        """Return the value of a word, True for one without; InputError where it is missing."""
        if name not in self.words:
            if default is None:
                raise self.place.error(f"{self.what} has no {name}", f"add {name}=...")
            return default
        found = self.words[name]
        return (
            True
            if found is None
            else scalar_of(found, self.places[name], variables=self.variables, scope=self.scope)
        )

    def text(self, name: str, default: str | None = None) -> str:
        """Return a word or text."""
        found = self.scalar(name, default)
        is_name = not isinstance(found, bool | RandomValue)
        return str(found) if is_name else self._wrong(name, found, "a name")

    def flag(self, name: str) -> bool:
        """Return whether it is set; numbers as in C."""
        found = self.scalar(name, default=False)
        return (
            bool(found)
            if isinstance(found, int | float)
            else self._wrong(name, found, "true or false")
        )

    def number(self, name: str, default: int | None = None, *, most: int = 1 << 62) -> int:
        """Return a whole number from 0 on."""
        found = self.scalar(name, default)
        if isinstance(found, bool | str | RandomValue) or not 0 <= found <= most or found % 1:
            self._wrong(name, found, f"a whole number from 0 to {most:,}")
        return int(found)  # type: ignore[arg-type]

    def value(self, name: str, default: Value | None = None) -> Value:
        """Return a whole number, or the distribution that it is drawn from."""
        found = self.scalar(name, default)
        return (
            found
            if isinstance(found, RandomValue)
            else self.number(name, default if isinstance(default, int) else None)
        )

    def _wrong(self, name: str, found: Scalar, wanted: str) -> Any:
        place = self.places.get(name, self.place)
        is_drawn = isinstance(found, RandomValue)
        raise place.error(
            f"{name} of {self.what} is {'drawn' if is_drawn else repr(found)}, not {wanted}"
        )


def scalar_of(
    tree: Any, place: Place, *, variables: Variables, scope: Scope = MappingProxyType({})
) -> Scalar:
    """Return what one value means."""
    if tree.data == "table":
        raise place.error("a table stands only in randtable of a randvar")
    token = tree.children[0]
    if token.type == "NUMBER":
        return _in_range(number_of(token), place, text=token)
    if token.type == "VARIABLE":
        return variables.get(variable_name(token), place, scope=scope)
    text = str(token).strip('"')
    return {"true": True, "false": False}.get(text, text)


def _in_range(number: float, place: Place, *, text: str = "") -> int | float:
    """Return a number; raise InputError beyond 2^63."""
    if abs(number) > MOST_NUMBER:
        raise place.error(f"the number {text[:40] or f'{number:.6g}'} is beyond 2^63")
    return number


def product_of(tree: Tree[Token], place: Place, *, variables: Variables) -> int | float:
    """Return what two numbers and an operator give."""
    left, operator, right = tree.children
    values = [scalar_of(one, place, variables=variables) for one in (left, right)]
    first, second = values
    if isinstance(first, str | RandomValue) or isinstance(second, str | RandomValue):
        raise place.error("only numbers can be calculated with")
    if operator == "/" and second == 0:
        raise place.error("a division by 0")
    quotient = first // second if operator == "/" else 0
    found = {"*": first * second, "+": first + second, "-": first - second, "/": quotient}
    return _in_range(found[str(operator)], place)


RANDVAR = {
    "name": "", "type": "", "mean": "", "gamma": "", "min": "", "round": "", "randtable": "",
    "seed": "the seed of the run is --seed",
    "randsrc": "random numbers are of one generator",
}  # fmt: skip
CVAR = {"type": "", "parameters": "", "min": "", "max": "", "round": ""}


def randvar_of(found: Attributes, not_used: Counter[str]) -> RandomValue:
    """Return what `randvar` describes: gamma by default, whose gamma is in thousandths."""
    found.check(RANDVAR, not_used)
    least, step = found.number("min", 0), found.number("round", 0)
    kind = found.text("type", "gamma")
    shape = found.number("gamma", 1500) / 1000
    mean = float(found.number("mean")) if found.has("mean") else 0.0
    if kind == "tabular" or found.has("randtable"):
        return RandomValue("table", segments=tuple(_segments(found, mean, least)), step=step)
    if kind == "uniform":
        width = 2 * (mean - least)
        parameters = (("lower", 0.0), ("upper", width))
    elif kind == "gamma":
        mean = (mean if found.has("mean") else shape) - least
        parameters = (("mean", mean), ("gamma", shape))
    else:
        raise found.place.error(f"a randvar of type '{kind}'", "it is gamma, uniform or tabular")
    check_family(kind, dict(parameters), place=f"{found.place.file}, line {found.place.line}")
    return _drawn(RandomValue(kind, parameters, offset=least, step=step), found)


def _drawn(value: RandomValue, found: Attributes) -> RandomValue:
    """Return a distribution; raise InputError where it has values that are no numbers."""
    with np.errstate(all="ignore"):
        least = value.table(1024).min()
    if least < 0:  # of what is no number: values are 0 or more
        raise found.place.error(f"{found.what}: {value.family} gives no numbers with these values")
    return value


def _segments(found: Attributes, mean: float, least: int) -> Iterator[Segment]:
    """Yield the rows of a randtable, stretched from `least` on so that they have the mean."""
    table = found.words.get("randtable")
    if table is None or table.data != "table":
        raise found.place.error(
            "a randvar of type tabular without its randtable", "randtable={{100,1k,4k}}"
        )
    rows = [
        [scalar_of(one, found.place, variables=found.variables) for one in row.children]
        for row in table.children
    ]
    if any(not isinstance(one, int | float) for row in rows for one in row):
        raise found.place.error("a randtable has something else than numbers")
    numbers: list[list[Any]] = rows
    total = sum(row[0] for row in numbers)
    if any(row[0] < 0 for row in numbers):
        raise found.place.error("a share of a randtable is below 0")
    if total != 100:
        raise found.place.error(f"the shares of a randtable are {total:g}%, not 100%")
    lowest = min(row[1] for row in numbers)
    own = sum(percent * (low + high) / 2 for percent, low, high in numbers) / 100
    stretch = ((mean or own) - least) / (own - lowest) if own > lowest else 0.0
    for percent, low, high in numbers:
        if percent > 0:
            yield Segment(percent, *((end - lowest) * stretch + least for end in (low, high)))


def cvar_of(found: Attributes, not_used: Counter[str]) -> RandomValue:
    """Return what `cvar` describes: type=cvar-NAME, parameters=KEY:NUMBER;KEY:NUMBER."""
    found.check(CVAR, not_used)
    family = found.text("type").removeprefix("cvar-")
    parameters = []
    for part in filter(None, found.text("parameters", "").split(";")):
        key, _, text = part.partition(":")
        try:
            parameters.append((key, float(text)))
        except ValueError:
            raise found.place.error(f"the parameter '{part}' of a cvar is not KEY:NUMBER") from None
    check_family(family, dict(parameters), place=f"{found.place.file}, line {found.place.line}")
    value = RandomValue(
        family,
        tuple(parameters),
        step=found.number("round", 0),
        least=found.number("min", 0),
        most=found.number("max", 1 << 62),
    )
    return _drawn(value, found)
