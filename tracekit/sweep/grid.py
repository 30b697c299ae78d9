"""Which runs a sweep has: personalities, their parameters, targets and repeats."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from tracekit.errors import UsageError
from tracekit.personality.model import Personality
from tracekit.personality.reader import open_personality
from tracekit.sizes import parse_duration
from tracekit.sweep.target import Target
from tracekit.workload.blocks import SEED_MOST

CACHES = ("keep", "sync", "cold")
CALL_SIZES = ("io_size", "append_size")
"""What `io_size` of a sweep sets: the study names one size for reading and writing calls."""


@dataclass(frozen=True)
class Timing:
    """How each run goes, in ns: measured time, time before it, and what becomes of caches."""

    duration_ns: int = 60 * 10**9
    warm_up_ns: int = 0
    cache: str = "sync"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check what the program would refuse later."""
        if self.cache not in CACHES:
            raise UsageError(f"--cache {self.cache}: not one of {', '.join(CACHES)}")
        if self.duration_ns <= 0:
            raise UsageError("--duration: must be above 0")
        if not 0 <= self.seed <= SEED_MOST:
            raise UsageError(f"--seed {self.seed}: not a number from 0 to 2^63 - 1")


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
    def run_id(self) -> str:
        """Return what names the run: the same for the same settings, target and number."""
        told = {
            "personality": self.personality.name,
            "flow": repr((self.personality.flow, self.personality.file_sets)),
            "threads": self.personality.threads,
            "target": self.target.name,
            "timing": vars(self.timing),
        }
        if self.target.guest:
            told["guest"] = repr(self.target.guest)
        if self.target.memory:
            told["memory"] = True
        if self.target.medium:
            told["medium"] = vars(self.target.medium)
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
        return f"{self.personality.name}-{digest[:12]}-{self.number}"


def asked_timing(duration: str, warm_up: str, *, cache: str, seed: int) -> Timing:
    """Return the timing of options as people write them, such as 60s."""
    warm_up_ns = 0 if warm_up in ("0", "0s") else parse_duration(warm_up, option="--warm-up")
    return Timing(parse_duration(duration, option="--duration"), warm_up_ns, cache, seed)


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
        raise UsageError(f"{option} {text}: a value comes twice", hint="--runs repeats")
    return values


def plan_runs(
    names: Sequence[str],
    targets: Sequence[Target],
    *,
    vary: Mapping[str, Axis],
    timing: Timing,
    repeats: int,
) -> list[Run]:
    """Return all runs, those of one plan one after the other.

    Each personality takes the parameters of `vary` that it has; raises UsageError for one that none
    has, and for no repeats.
    """
    if repeats < 1:
        raise UsageError("--runs: must be at least 1")
    runs = []
    for name in names:
        for settings in _settings(name, vary):
            personality = open_personality(name, settings, given_by=_options(vary))
            for number, target in itertools.product(range(1, repeats + 1), targets):
                runs.append(Run(personality, name, target, timing, number, settings))
    for key, axis in vary.items():
        if not any(key in run.settings or _sets(key, run) for run in runs):
            known = list(dict.fromkeys(name for run in runs for name in run.personality.parameters))
            close = get_close_matches(key, known, n=1)
            raise UsageError(
                f"{axis.option}: no personality has the parameter '{key}'",
                hint=f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}",
            )
    return runs


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


def _sets(key: str, run: Run) -> bool:
    return key in run.personality.parameters
