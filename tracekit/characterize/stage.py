"""The stage: measures step by step, then writes tables, profile and answer."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.characterize.answer import write_answer
from tracekit.characterize.latencies import ALL, read_latencies
from tracekit.characterize.plans import write_plan
from tracekit.characterize.profile import checked_name
from tracekit.characterize.state import State, open_state
from tracekit.characterize.steps import Amounts, Step, steps
from tracekit.characterize.target import Asked, Target, open_target
from tracekit.errors import InputError, PartialError, UsageError
from tracekit.native.replay import checked_program, run_program
from tracekit.profiles import choose_profile, load_profiles
from tracekit.store import measurement_folder, scratch_folder

PLACE = "device"
RESULT = "device.json"
STATE = "state.json"
OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Options:
    """What to measure, how much of it, and how the fitted profile is called and completed."""

    asked: Asked
    amounts: Amounts = field(default_factory=Amounts)
    name: str = ""
    like: str = ""
    price_per_gb: float | None = None
    seed: int = 1
    keeps_file: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked before anything is measured."""
        checked_name(self.name, path=self.asked.path, device=self.asked.device)
        if self.price_per_gb is not None and not 0 < self.price_per_gb <= 1e12:
            raise UsageError(f"--price {self.price_per_gb:g}: not a price above 0")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: not a number from 0 up")
        if self.like:
            choose_profile(load_profiles(self.asked.profiles), self.like)
        self.asked.profile()


def characterize(
    output: Path, options: Options, *, on_step: OnStep | None = None
) -> dict[str, Any]:
    """Measure the device into `output`/device and return the answer, device.json.

    Steps that an interrupted run has finished are not measured again. PartialError when this run
    is interrupted. Without leave to write only what reads is measured.
    """
    checked_program()
    place = output / PLACE
    if (place / RESULT).exists() and not options.overwrite:
        raise UsageError(f"{place} holds a characterization", hint="pass --force to replace it")
    state = open_state(place / STATE, _identity(options), anew=options.overwrite)
    with tempfile.TemporaryDirectory(prefix="tracekit-") as name:
        target = open_target(options.asked, Path(name), made=state.made_file())
    folder = measurement_folder(output)
    if (place / RESULT).exists():
        shutil.rmtree(place)
    place.mkdir(exist_ok=True)
    wanted = [
        step
        for step in steps(options.amounts, target.size_bytes)
        if target.may_write or not step.writes
    ]
    with scratch_folder(place / "run") as scratch:
        run = _Run(state, target, scratch, options)
        try:
            for number, step in enumerate(wanted):
                if on_step is not None:
                    on_step(step.label, number, len(wanted))
                if not state.done(number, step.as_dict()):
                    run.measure(number, step)
        finally:
            if not state.results and not options.keeps_file:
                state.remove_made()
    result = write_answer(folder, state, target=run.target, options=options)
    if not options.keeps_file:
        state.remove_made()
    state.file.unlink()
    return result


@dataclass
class _Run:
    state: State
    target: Target
    scratch: Path
    options: Options

    def measure(self, number: int, step: Step) -> None:
        """Run one step and keep its result; PartialError when it was interrupted."""
        # What is made of earlier steps after an interruption would not be theirs.
        del self.state.results[number:]
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            place = Path(name)
            plan, records = place / "step.plan", place / "step.completions"
            seed = (self.options.seed, number)
            write_plan(plan, step, size_bytes=self.target.size_bytes, seed=seed)
            outcome = run_program(
                plan, place / "step.json", arguments=self._arguments(step, records)
            )
            self._keep_file()
            self._check(outcome.summary, step)
            latencies, pace = read_latencies(records, step.requests, depth=step.depth)
        if not latencies[ALL].count:
            raise InputError(_failed(outcome.summary, step))
        self.state.add(
            {
                "step": step.as_dict(),
                "elapsed_ns": pace.elapsed_ns,
                "iops": latencies[ALL].count / max(pace.elapsed_ns, 1) * 1e9,
                "usual_iops": pace.usual_iops,
                "engine": outcome.summary["engine"]["used"],
                "is_direct": outcome.summary["targets"][0]["is_direct"],
                "steal_ratio": outcome.summary["fidelity"]["steal_ratio"],
                "overruns": outcome.summary["engine"]["overruns"],
                "operations": {name: one.as_dict() for name, one in latencies.items()},
            }
        )

    def _arguments(self, step: Step, records: Path) -> list[str]:
        paced = ["--pace", "fast", "--depth", str(step.depth), "--threads", str(step.depth)]
        return [*self.target.arguments, *paced, "--no-calibration", "--completions", str(records)]

    def _keep_file(self) -> None:
        """After the first step the file that was made for the run is there, and ours."""
        if self.target.is_ours and self.state.made is None and self.target.path is not None:
            self.state.keep_made(self.target.path)
            self.target = self.target.confirmed()

    def _check(self, summary: dict[str, Any], step: Step) -> None:
        if summary["outcome"] != "interrupted":
            return
        made = self.state.made_file()
        is_kept = made is not None and bool(self.state.results)
        raise PartialError(
            f"interrupted in '{step.label}': {len(self.state.results)} steps are done and kept",
            hint="run the same command again to go on"
            + (f"; {made} stays until then" if is_kept else ""),
        )


def _failed(summary: dict[str, Any], step: Step) -> str:
    errors = ", ".join(f"{one['name']} ({one['meaning']})" for one in summary["errors"])
    return f"not one request of '{step.label}' was done: {errors or 'all were left out'}"


def _identity(options: Options) -> dict[str, Any]:
    """Return what an interrupted measurement must have been asked with to go on with it."""
    asked = options.asked
    profile = asked.profile()
    told = "" if profile is None else hashlib.sha256(repr(profile).encode()).hexdigest()[:16]
    return {
        "target": None if asked.path is None else str(asked.path.absolute()),
        "--device": asked.device,
        "profile": told,
        "--engine": asked.engine,
        "--size": asked.size_bytes,
        "--direct": asked.direct,
        "--write-to": list(asked.confirmations),
        "--seed": options.seed,
        **{
            f"--{key.replace('_', '-')}": list(value) if isinstance(value, tuple) else value
            for key, value in vars(options.amounts).items()
        },
    }
