"""The whole round on two targets: measure both, recommend, replay, and compare.

It runs the stages in turn, each in the proof's folder: a trace folder, too, with the requests and
blocks of the trace. What a step has made stays when the round is killed, and the next run goes on.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import to_builtins

from tracekit.device.characterize import (
    PROFILE,
    RESULT,
    UNFINISHED,
    CharacterizeOptions,
    characterize,
)
from tracekit.device.fit import checked_name, medians_of, middle_of, write_tables
from tracekit.device.steps import Amounts
from tracekit.device.target import LEAST_BYTES, TargetOptions, open_target
from tracekit.device.trace_mix import (
    MixCell,
    Slices,
    TraceMix,
    fit_cells,
    model_ns,
    pooled,
    slowness,
)
from tracekit.devices import load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.escapes import shell_word
from tracekit.machine_state import Use, Watch
from tracekit.metadata import Record, read_object
from tracekit.model.answer import ANSWER, make_grid, read_recommendation, resolved
from tracekit.model.answer import RESULT as ADVICE
from tracekit.model.block_orders import read_blocks
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.repeats import in_turn
from tracekit.replay.between import Between, Speeds
from tracekit.replay.compiler import PlanOptions, compile_plan
from tracekit.replay.player import EMULATED
from tracekit.replay.routes import NVM
from tracekit.replay.run import check_places
from tracekit.replay.verdict import CANNOT_TELL
from tracekit.replay.verify import verify
from tracekit.replay.verify_runs import VerifyOptions
from tracekit.replay.verify_words import SELF_TEST
from tracekit.safe_open import sha256_of
from tracekit.store import TraceFolder, link, new_folder, scratch_folder, write_json
from tracekit.toml_files import load_toml
from tracekit.units import BLOCK_BYTES, MIB, format_duration, format_size

PROOF = "proof.json"
FOLDER = "proof"
PROFILES = "profiles.toml"
BASE = "base"
SIDES = (BASE, NVM)
LEAST_STEP_S = 0.05
"""A measurement that took less was there already."""
ADVISE = "recommend"
"""The step in which nothing is timed."""
HASHED = {"requests": "parse", "blocks": "classify"}
LINKED = (*HASHED, "working_set")
LEAST_MEASURED = 64 * MIB
ANEW = "pass --force to begin anew, or choose another --output"
OnStep = Callable[[str, int, int], None]
LEFT_OUT = "left_out_ratio"
SLICES = 4
"""How many times as long as what is measured between two replays these may last."""
Work = Callable[[str, Watch], float | None]
"""Does a step; returns the share of requests left out of it, None where all count."""


@dataclass(frozen=True, kw_only=True)
class ProveOptions:
    """Where to measure and replay, how much, and how far off the model may be (ratios)."""

    base: str
    nvm: str
    quick: bool = False
    scale: float = 1.0
    rounds: int = 3
    """Measurements of each target."""
    size_bytes: int | None = None
    capacity_bytes: int | None = None
    placement: str = ANSWER
    seconds: float = 10.0
    repeats: int = 3
    tolerance_ratio: float = 0.05
    time_tolerance_ratio: float = 0.1
    write_to: tuple[str, ...] = ()
    profiles: Path | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        """Check the numbers before anything is measured."""
        if not 1 <= self.rounds <= 64:
            raise UsageError(f"--rounds {self.rounds}: not from 1 to 64")
        self.verifying()
        self.amounts()
        if self.is_emulated(self.base) != self.is_emulated(self.nvm):
            raise UsageError(
                f"--base {self.base} and --nvm {self.nvm}: one is emulated, the other is real",
                hint="give two files or block devices, or two device profiles",
            )

    def is_emulated(self, target: str) -> bool:
        """Whether a target is the name of a device profile, and no file."""
        is_name = "/" not in target and not os.path.lexists(target)
        return is_name and target in load_profiles(self.profiles)

    def amounts(self, *, is_first: bool = True) -> Amounts:
        """Return how much of each target is measured; it is filled and made steady at first."""
        amounts = Amounts(scale=self.scale)
        amounts = amounts.quick() if self.quick else amounts
        return amounts if is_first else replace(amounts, fill_percent=0, precondition=0)

    def verifying(self, profiles: Path | None = None) -> VerifyOptions:
        """Return how the placement is replayed."""
        is_emulated = self.is_emulated(self.base)
        return VerifyOptions(
            placement=self.placement,
            seconds=self.seconds,
            repeats=self.repeats,
            tolerance_ratio=self.tolerance_ratio,
            time_tolerance_ratio=self.time_tolerance_ratio,
            targets=() if is_emulated else (self.base, f"{NVM}={self.nvm}"),
            engine=EMULATED if is_emulated else "auto",
            write_to=self.write_to,
            profiles=profiles,
            only_compared=True,
            emulates=(self.base, self.nvm) if is_emulated else None,
        )

    @property
    def asked(self) -> dict[str, Any]:
        """What has to be the same when a round is gone on with."""
        left_out = ("write_to", "overwrite")
        found = {key: one for key, one in asdict(self).items() if key not in left_out}
        return {**found, "profiles": None if self.profiles is None else str(self.profiles)}


class Step(Record):
    """A step that is done, and what else used the machine meanwhile."""

    name: str
    machine: Use
    lasted_s: float = 0.0


class Measured(Record):
    """A target, and the profile of it that the prediction rests on."""

    target: str
    profile: str
    size_bytes: int
    read_latency_us: float
    write_latency_us: float
    repeats: int


class Proof(Record, kw_only=True):
    """The content of proof.json: what is done, and the verdict at the end."""

    asked: dict[str, Any]
    trace: dict[str, str]
    """SHA-256 of the tables of the trace that the round is of."""
    sizes: list[int]
    """How much of each target is measured, in bytes."""
    steps: list[Step] = msgspec.field(default_factory=list)
    running: str | None = None
    """The step that runs, or was killed."""
    killed: list[str] = msgspec.field(default_factory=list)
    """Steps that were killed, or interrupted, and gone on with."""
    devices: list[Measured] = msgspec.field(default_factory=list)
    is_self_test: bool = False
    verdict: str | None = None
    """held, did not hold or cannot tell; None as long as there is none."""
    is_held: bool | None = None
    reason: str | None = None
    emulation_late: str | None = None
    headline: list[str] = msgspec.field(default_factory=list)


def prove(
    folder: TraceFolder, options: ProveOptions, *, output: Path, on_step: OnStep | None = None
) -> dict[str, Any]:
    """Do what is not done of the round, and write proof.json into `output`; return its content.

    Raises UsageError before anything is written unless both targets may be written, and hold what
    is replayed on them.
    """
    run = _opened(folder, output, options, on_step or (lambda *_: None))
    for name, work in run.steps():
        if name not in [step.name for step in run.proof.steps]:
            run.do(name, work)
    return run.finish()


def _opened(folder: TraceFolder, output: Path, options: ProveOptions, on_step: OnStep) -> _Run:
    """Open the folder of the round, or make it; everything is checked before."""
    trace = {name: sha256_of(folder.require(name, made_by=one)) for name, one in HASHED.items()}
    is_new = options.overwrite or not (output / PROOF).is_file()
    proof = Proof(asked=options.asked, trace=trace, sizes=_checked_sizes(folder, options))
    if is_new:
        with new_folder(output, overwrite=options.overwrite, marker=PROOF) as place:
            link(folder.file("trace.json"), place / "trace.json")
            for name in LINKED:
                if folder.has(name):
                    link(folder.table(name), place / f"{name}.parquet")
            write_json(place / PROOF, to_builtins(proof))
    else:
        proof = _known(TraceFolder(output), proof)
    return _Run(TraceFolder(output), options, proof, on_step)


def _known(folder: TraceFolder, asked: Proof) -> Proof:
    """Return what is done; UsageError where it is of another trace, or of other options."""
    file = folder.file(PROOF)
    found = folder.result(PROOF, Proof, hint=ANEW)
    if found is None or found.verdict is not None:
        raise UsageError(f"{folder.path} holds a whole proof", hint=ANEW)
    for name, digest in asked.trace.items():
        if found.trace.get(name) != digest:
            raise UsageError(
                f"{file}: this proof is of another trace, or of one that was classified again: its"
                f" {name} have the SHA-256 {str(found.trace.get(name))[:12]}, not {digest[:12]}",
                hint=ANEW,
            )
    for key, value in to_builtins(asked.asked).items():
        if found.asked.get(key) != value:
            raise UsageError(
                f"{file}: the proof was begun with {key} {found.asked.get(key)!r}, not {value!r}",
                hint=f"ask as before to go on, or {ANEW}",
            )
    return found


def _checked_sizes(folder: TraceFolder, options: ProveOptions) -> list[int]:
    """Return how much of base and NVM is measured: by default what is replayed there."""
    with tempfile.TemporaryDirectory(prefix="tracekit-") as name:
        plan = compile_plan(folder, Path(name) / "plan", options=PlanOptions())
        blocks = read_blocks(folder.require("blocks", made_by="classify")).role_blocks().tolist()
        grid = make_grid(blocks, ())
        capacity = options.capacity_bytes or int(grid.fine[grid.headline]) * BLOCK_BYTES
        needs = [sum(one["needed_bytes"] for one in plan.targets), capacity]
        if options.is_emulated(options.base):
            return [options.size_bytes or max(need, LEAST_MEASURED) for need in needs]
        if os.path.realpath(options.base) == os.path.realpath(options.nvm):
            raise UsageError(
                f"--base {options.base} and --nvm {options.nvm} are the same",
                hint="give two files or block devices",
            )
        check_places(folder, (options.base, f"{NVM}={options.nvm}"))
        return _sizes_of_targets(options, needs, Path(name))


def _sizes_of_targets(options: ProveOptions, needs: Sequence[int], scratch: Path) -> list[int]:
    sizes, missing = [], []
    for side, need in zip(SIDES, needs, strict=True):
        path = Path(getattr(options, side))
        if not os.path.lexists(path):
            raise UsageError(
                f"--{side} {path}: there is no such file, block device or device profile",
                hint="a file has to be there, and written: what is not is not read from its disk",
            )
        target = open_target(
            TargetOptions(path=path, write_to=options.write_to), scratch, made=None
        )
        if target.size_bytes < max(need, LEAST_BYTES):
            raise UsageError(
                f"--{side} {path}: has {format_size(target.size_bytes)}, and"
                f" {format_size(max(need, LEAST_BYTES))} are replayed there",
                hint="choose a larger one" + ("" if side == BASE else ", or a smaller --capacity"),
            )
        if not target.may_write:
            missing.append(f"--write-to {shell_word(target.about['confirm_with'])}")
        wanted = options.size_bytes or max(need, LEAST_MEASURED)
        sizes.append(min(wanted, target.size_bytes))
    if missing:
        raise UsageError(
            "everything on both targets is lost, which has to be confirmed",
            hint=f"add {' '.join(missing)}",
        )
    return sizes


@dataclass
class _Run:
    folder: TraceFolder
    options: ProveOptions
    proof: Proof
    on_step: OnStep
    verified: dict[str, Any] = field(default_factory=dict)
    began_s: float = 0.0
    """When the step that runs began, by the monotonic clock."""

    def steps(self) -> Iterator[tuple[str, Work]]:
        """Yield the steps in turn: measurements alternate, as what they are compared with does."""
        for number, order in enumerate(in_turn(len(SIDES), self.options.rounds), 1):
            yield from ((f"{SIDES[side]} {number}", self._measure) for side in order)
        yield ADVISE, self._recommend
        yield "verify", self._verify

    def do(self, name: str, work: Work) -> None:
        """Run a step, and keep that it is done."""
        if self.proof.running is not None:
            self.proof.killed.append(self.proof.running)
        self.proof.running = name
        self._save()
        watch, self.began_s = Watch(), time.monotonic()
        left_out_ratio = work(name, watch)
        lasted_s = time.monotonic() - self.began_s
        self.proof.steps.append(Step(name, watch.found(left_out_ratio), lasted_s))
        self.proof.running = None
        self._save()

    def _left_s(self) -> float | None:
        """Return about how long the rest takes; None until each side was measured once, or late.

        A target's measurements after the first, which fills it, take no longer than that one; each
        replay takes about `seconds`, or less as placed. Steps that an earlier run ended in part
        have no time of their own.
        """
        lasted: dict[str, list[float]] = {side: [] for side in SIDES}
        done = dict.fromkeys(SIDES, 0)
        for step in self.proof.steps:
            side = step.name.split()[0]
            if side in lasted:
                done[side] += 1
                lasted[side] += [step.lasted_s] if step.lasted_s >= LEAST_STEP_S else []
        if not all(lasted.values()):
            return None
        sides = 3 if self.options.placement == ANSWER else 2  # that is beside the runner-up
        seconds, replays = self.options.seconds, sides * self.options.repeats
        verify_s = replays * seconds
        if not self.options.is_emulated(self.options.base):
            verify_s += (replays + 1) * len(SIDES) * seconds / SLICES
        rest_s = sum((self.options.rounds - done[side]) * lasted[side][-1] for side in SIDES)
        left_s = rest_s + verify_s - (time.monotonic() - self.began_s)
        return left_s if left_s > 0 else None

    def _save(self) -> None:
        write_json(self.folder.file(PROOF), to_builtins(self.proof))

    def _place(self, name: str) -> Path:
        return self.folder.path / name.replace(" ", "-")

    def _told(self, name: str, watch: Watch) -> OnStep:
        def _tell(text: str, number: int, total: int) -> None:
            watch.look()
            left_s = self._left_s()
            if left_s is not None:
                text = f"{text} (all: about {format_duration(left_s * 1e9)} more)"
            self.on_step(f"{name}: {text}", number, total)

        return _tell

    def _measure(self, name: str, watch: Watch) -> float | None:
        place = self._place(name)
        if (place / RESULT).exists() and not (place / UNFINISHED).exists():
            return float(read_object(place / RESULT, hint=ANEW).get(LEFT_OUT, 0.0))
        side, number = name.split()
        target = getattr(self.options, side)
        is_emulated = self.options.is_emulated(target)
        found = characterize(
            place,
            CharacterizeOptions(
                target=TargetOptions(
                    path=None if is_emulated else Path(target),
                    device=target if is_emulated else "",
                    profiles=self.options.profiles,
                    size_bytes=self.proof.sizes[SIDES.index(side)],
                    write_to=self.options.write_to,
                ),
                amounts=self.options.amounts(is_first=number == "1"),
                name=side,
                seed=int(number),
                mix=TraceMix(self.folder, self.options.seconds),
            ),
            on_step=self._told(f"characterize {name}", watch),
        )
        return float(found[LEFT_OUT])

    def _profile_of(self, side: str) -> dict[str, Any]:
        """Return the profile of all measurements of a side, fitted to what they have in common."""
        numbers = range(1, self.options.rounds + 1)
        places = [self._place(f"{side} {number}") for number in numbers]
        found = [load_profiles(place / PROFILE)[side] for place in places]
        values = medians_of(found)
        answers = [read_object(place / RESULT, hint=ANEW) for place in places]
        if cells := pooled([msgspec.convert(one.get("mix", []), list[MixCell]) for one in answers]):
            values |= fit_cells(values, cells)
        return middle_of(found, values)

    def _recommend(self, name: str, _watch: Watch) -> None:
        own = {} if self.options.profiles is None else load_toml(self.options.profiles)[1]
        names = self._names()
        tables = {one: self._profile_of(side) for side, one in zip(SIDES, names, strict=True)}
        file = self.folder.file(PROFILES)
        write_tables(file, {**own, **tables})
        known = load_profiles(file)
        self.proof.devices = [
            Measured(
                target=getattr(self.options, side),
                profile=one,
                size_bytes=size,
                read_latency_us=known[one].read_latency_us,
                write_latency_us=known[one].write_latency_us,
                repeats=self.options.rounds,
            )
            for side, one, size in zip(SIDES, names, self.proof.sizes, strict=True)
        ]
        self.on_step(name, 0, 1)
        capacity = self.options.capacity_bytes
        base, nvm = names
        sizes = () if capacity is None else (capacity,)
        recommend(self.folder, RecommendOptions(base, nvm, sizes, profiles=file))

    def _names(self) -> list[str]:
        """Return what the measured profiles are called: after their targets."""
        found = []
        for side in SIDES:
            target = getattr(self.options, side)
            is_emulated = self.options.is_emulated(target)
            path = None if is_emulated else Path(target)
            found.append(checked_name("", path=path, device=target if is_emulated else ""))
        return found if found[0] != found[1] else [f"{found[0]}-{side}" for side in SIDES]

    def _verify(self, name: str, watch: Watch) -> float | None:
        options = self.options.verifying(self.folder.file(PROFILES))
        advice = read_recommendation(self.folder)
        is_by_role = resolved(advice, options.placement) == ANSWER
        if is_by_role and not any(advice.answer.blocks.values()):
            raise InputError(
                f"{self.folder.file(ADVICE)}: the answer for these devices is to leave everything"
                " on the base device, so there is no placement to replay",
                hint=f"begin anew with another --capacity or --placement best; {ANEW}",
            )
        told = self._told(name, watch)
        if options.engine == EMULATED:
            self.verified = verify(self.folder, options, on_run=told)
        else:
            with scratch_folder(self.folder.path / "slices") as place:
                between = self._between(place)
                self.verified = verify(self.folder, options, on_run=told, between=between)
        self.proof.is_self_test = options.engine == EMULATED
        left_out: float | None = self.verified[LEFT_OUT]
        return left_out

    def _between(self, place: Path) -> Between:
        """Return how the devices are measured between replays, a quarter as long."""
        known = load_profiles(self.folder.file(PROFILES))
        profiles = [known[name] for name in self._names()]
        answer, total = read_recommendation(self.folder).answer, self.folder.info.count("requests")
        mean_ns = max(answer.base_elapsed_ns / max(total, 1), 1.0)
        ratio = profiles[1].write_latency_us / profiles[0].write_latency_us
        slices = [
            self._slices(side, place, mean_ns=one)
            for side, one in zip(SIDES, (mean_ns, mean_ns * ratio), strict=True)
        ]
        cells = [one.measure() for one in slices]

        def measure() -> Speeds:
            found = zip(slices, profiles, strict=True)
            return Speeds(*(slowness(one.measure(), profile) for one, profile in found))

        # By each measurement the same requests take another time; a device measured once its own.
        repeats = [
            [model_ns(own, one) / model_ns(own, profile) for one in profile.measured or (profile,)]
            for own, profile in zip(cells, profiles, strict=True)
        ]
        return Between(measure, [Speeds(*pair) for pair in zip(*repeats, strict=True)])

    def _slices(self, side: str, place: Path, *, mean_ns: float) -> Slices:
        mix = TraceMix(self.folder, self.options.seconds / SLICES)
        within = place / side
        within.mkdir()
        options = TargetOptions(
            path=Path(getattr(self.options, side)),
            size_bytes=self.proof.sizes[SIDES.index(side)],
            write_to=self.options.write_to,
        )
        return Slices(options, mix, requests=mix.requests_for(mean_ns), place=within)

    def finish(self) -> dict[str, Any]:
        """Write the verdict; return all that there is."""
        conclude(self.proof, self.verified)
        self._save()
        return {**self.verified, **to_builtins(self.proof)}


def conclude(proof: Proof, verified: Mapping[str, Any]) -> None:
    """Give a proof its verdict: that of the replays, or none of real devices on a busy machine."""
    for key in ("verdict", "is_held", "reason", "emulation_late"):
        setattr(proof, key, verified[key])
    lines = [one for one in verified["headline"] if one != SELF_TEST]
    timed = [one for one in proof.steps if one.name != ADVISE]
    busy = [one for one in timed if one.machine.is_busy]
    if busy and not proof.is_self_test:
        found = proof.verdict
        proof.verdict, proof.is_held = CANNOT_TELL, None
        proof.reason = f"the machine was busy: {_of_machine(busy)}"
        lines.insert(
            0,
            f"Cannot tell whether the prediction holds, since {proof.reason}. Close other load"
            f" and run this again with --force; of these times alone: {found}.",
        )
    proof.headline = [*lines, *_notes(proof, timed)]


def _of_machine(steps: Sequence[Step]) -> str:
    worst = max(steps, key=lambda one: one.machine.excess)
    return f"{worst.machine.words} in the step '{worst.name}'"


def _notes(proof: Proof, timed: Sequence[Step]) -> Iterator[str]:
    for one in proof.devices:
        read, write = (
            format_duration(us * 1e3) for us in (one.read_latency_us, one.write_latency_us)
        )
        yield (
            f"{one.target} was measured {one.repeats} times, {format_size(one.size_bytes)} of it:"
            f" 4 KiB in {read} read, {write} written [{one.profile}]."
        )
    yield (
        "Both were measured, each alone, with requests of one half of the trace; compared are"
        " windows of the other half."
    )
    yield f"The machine: at most {_of_machine(timed)}."
    if proof.killed:
        names = ", ".join(f"'{name}'" for name in proof.killed)
        yield f"Killed or interrupted, and gone on with: {names}."
    if proof.is_self_test:
        yield (
            "This was a self-test: both devices were emulated, the model used what was measured of"
            " them; a file or block device for --base and one for --nvm prove real ones."
        )
