"""A command with NVM in place of one part of the disk after another: Fig. 1 of study A, measured.

Each run boots a guest of its own. The parts take turns over the repeats, and what is done is kept
after each run: the same command goes on with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import to_builtins

from tracekit.counters import Rule
from tracekit.errors import PartialError, UsageError
from tracekit.lab.machine import ROLES, Disk, parse_disks
from tracekit.lab.session import Ended, Job, session
from tracekit.metadata import Record, read_object, validate
from tracekit.repeats import LEVEL, holm, in_turn, mean_of, ratio_of
from tracekit.store import new_folder, write_json
from tracekit.units import format_duration

RESULT = "uses.json"
BASE = "base"
NAMES = {"fs": "file system", "journal": "journal", "swap": "swap"}
ANEW = "choose another --output"


class Run(Record):
    """One run of the command in a guest of its own."""

    use: str
    """base, or the part that was NVM."""
    repeat: int
    """From 1."""
    elapsed_ns: int
    rate: float | None = None
    """What --throughput found in the command's output."""


class Use(Record):
    """All runs of one use; `low` and `high` are ends of 95 % confidence intervals."""

    use: str
    mean: float
    """In ns, or of the rate."""
    low: float | None
    high: float | None
    ratio: float | None
    """To the base, of geometric means; None of the base itself."""
    ratio_low: float | None
    ratio_high: float | None
    p_value: float | None
    """Corrected by Holm for the uses that are compared."""


class Uses(Record):
    """The content of uses.json."""

    asked: dict[str, Any]
    accelerator: str | None = None
    runs: list[Run] = msgspec.field(default_factory=list)
    uses: list[Use] = msgspec.field(default_factory=list)
    headline: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class UsesOptions:
    """The parts of the disk, the NVM that takes the place of each, and how often."""

    disks: tuple[str, ...]
    """ROLE=SIZE:LATENCY[:DEPTH]"""
    nvm: str
    """LATENCY[:DEPTH]"""
    repeats: int = 5
    rule: Rule = field(default_factory=Rule)
    """Where a throughput is in the command's output; without a pattern time counts."""

    def __post_init__(self) -> None:
        """Check everything before a guest is booted."""
        if not 1 <= self.repeats <= 1000:
            raise UsageError(f"--repeat {self.repeats}: not from 1 to 1000")
        for text, disk in zip(self.disks, map(parse_one, self.disks), strict=True):
            if not disk.latency_ns:
                raise UsageError(
                    f"--disk {text}: without a latency it is as fast as this machine's disk",
                    hint=f"give the latency of the disk to compare with, such as {text}:5ms:1",
                )
        for use in self.roles():
            parse_disks(self.disks_of(use))

    def roles(self) -> list[str]:
        """Return the parts that NVM may be, in the order of the study."""
        given = [text.partition("=")[0] for text in self.disks]
        return [role for role in ROLES if role in given]

    def disks_of(self, use: str) -> tuple[str, ...]:
        """Return the parts of the disk with NVM as one of them."""
        return tuple(
            f"{text.partition(':')[0]}:{self.nvm}" if text.partition("=")[0] == use else text
            for text in self.disks
        )


def parse_one(text: str) -> Disk:
    """Return one part of a disk as a disk of its own; a journal needs no file system here."""
    role = text.partition("=")[0]
    return parse_disks([text] if role != "journal" else [text, "fs=64MiB"])[0]


def run_uses(
    output: Path, options: UsesOptions, *, job: Job, on_step: Callable[[str], None]
) -> Uses:
    """Run what is not done, write uses.json after each run, and return its content."""
    job.check()
    done = _opened(output, options, job)
    names = (BASE, *options.roles())
    orders = enumerate(in_turn(len(names), options.repeats), 1)
    planned = [(names[place], repeat) for repeat, order in orders for place in order]
    known = {(run.use, run.repeat) for run in done.runs}
    for number, (use, repeat) in enumerate(planned, 1):
        if (use, repeat) in known:
            continue
        where = "all on the disk" if use == BASE else f"NVM as {NAMES[use]}"
        on_step(f"run {number} of {len(planned)}: {where}")
        disks = tuple(parse_disks(list(options.disks_of(use))))
        with session(replace(job, disks=disks), on_step=lambda _text: None) as ended:
            done.accelerator = ended.accelerator
            done.runs.append(_run(ended, use, repeat, options=options))
        _judge(done, options)
        write_json(output / RESULT, to_builtins(done))
    return done


def _opened(output: Path, options: UsesOptions, job: Job) -> Uses:
    """Return what is done in the folder, or make it."""
    asked: dict[str, Any] = {
        "disks": list(options.disks),
        "nvm": options.nvm,
        "throughput": options.rule.pattern,
        "repeats": options.repeats,
        **{name: str(value) for name, value in vars(job).items() if name != "disks"},
    }
    if not output.exists():
        with new_folder(output, marker=RESULT) as part:
            write_json(part / RESULT, to_builtins(Uses(asked=asked)))
        return Uses(asked=asked)
    file = output / RESULT
    if not file.is_file():
        raise UsageError(f"{output} exists already, without {RESULT}", hint=ANEW)
    found = validate(read_object(file, hint=ANEW), Uses, file=file, hint=ANEW)
    for name, value in asked.items():
        if found.asked.get(name) != value and name != "repeats":
            raise UsageError(
                f"{file}: was begun with {name} {found.asked.get(name)!r}, not {value!r}",
                hint=f"ask as before to go on, or {ANEW}",
            )
    found.asked = asked
    return found


def _run(ended: Ended, use: str, repeat: int, *, options: UsesOptions) -> Run:
    """Return what a run measured; PartialError where the command failed."""
    name = f"run {repeat} of {use}"
    if ended.exit_status:
        talk = (ended.folder / "stderr").read_text(errors="replace").strip().split("\n")[-5:]
        raise PartialError(
            f"{name}: the command failed with status {ended.exit_status}",
            hint="; ".join(line for line in talk if line) or "it printed no error",
        )
    rate = None
    if options.rule.pattern:
        text = (ended.folder / "stdout").read_text(errors="replace")
        rate = options.rule.of_text(text, f"the output of {name}")
    return Run(use=use, repeat=repeat, elapsed_ns=ended.command_ns, rate=rate)


def _judge(done: Uses, options: UsesOptions) -> None:
    """Compute the means, the ratios to the base and the words of what is done."""
    values: dict[str, list[float]] = {}
    for run in done.runs:
        values.setdefault(run.use, []).append(float(run.rate or run.elapsed_ns))
    names = [name for name in (BASE, *options.roles()) if name in values]
    base = values.get(BASE)
    ratios = {name: ratio_of(values[name], base) for name in names if base and name != BASE}
    known = {name: one.p_value for name, one in ratios.items() if one and one.p_value is not None}
    p_values = dict(zip(known, holm(list(known.values())), strict=True))
    done.uses = []
    for name in names:
        mean, ratio = mean_of(values[name]), ratios.get(name)
        done.uses.append(
            Use(
                use=name,
                mean=mean.mean,
                low=mean.low,
                high=mean.high,
                ratio=None if ratio is None else ratio.mean,
                ratio_low=None if ratio is None else ratio.low,
                ratio_high=None if ratio is None else ratio.high,
                p_value=p_values.get(name),
            )
        )
    done.headline = list(_lines(done, options, counts={name: len(values[name]) for name in names}))


def _lines(done: Uses, options: UsesOptions, *, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each use, then which is best."""
    for one in done.uses:
        where = "all on the disk" if one.use == BASE else f"NVM as {NAMES[one.use]}"
        yield f"{where}: {_amounts(one, options)} in {counts[one.use]} runs{_against(one)}"
    compared = [one for one in done.uses if one.ratio is not None]
    if not compared:
        return
    best = (max if options.rule.pattern else min)(compared, key=lambda one: one.ratio or 0.0)
    gain = (best.ratio or 1.0) > 1 if options.rule.pattern else (best.ratio or 1.0) < 1
    if gain and best.p_value is not None and best.p_value < 1 - LEVEL:
        yield f"best measured: NVM as {NAMES[best.use]}"
    else:
        yield "best measured: none gains for certain over the disk alone"


def _amounts(one: Use, options: UsesOptions) -> str:
    show = (lambda value: f"{value:.4g}/s") if options.rule.pattern else format_duration
    ends = "" if one.low is None or one.high is None else f" ({show(one.low)} to {show(one.high)})"
    return f"{show(one.mean)}{ends}"


def _against(one: Use) -> str:
    """Return how a use compares with the base, with its interval."""
    if one.ratio is None:
        return ""
    change = f", {one.ratio - 1:+.1%}"
    if one.ratio_low is None or one.ratio_high is None:
        return change
    text = f"{change} ({one.ratio_low - 1:+.1%} to {one.ratio_high - 1:+.1%})"
    is_clear = one.p_value is not None and one.p_value < 1 - LEVEL
    return text if is_clear else f"{text}: no difference that is certain"
