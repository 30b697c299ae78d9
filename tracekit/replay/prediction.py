"""What the model says that a folder's requests take, on the base device and as placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from tracekit._native import placement as native
from tracekit.devices import DevicePair
from tracekit.errors import InputError
from tracekit.metadata import Record
from tracekit.model.answer import Recommendation, RoleSet, charged_trace
from tracekit.model.best_placement import read_best, time_ps
from tracekit.model.best_records import BestAt
from tracekit.model.block_orders import order_blocks
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import ChargedTrace, to_ns
from tracekit.model.unit_answer import read_units
from tracekit.model.unit_records import UnitAnswer
from tracekit.replay.between import Round, Speeds, middle
from tracekit.store import TraceFolder
from tracekit.tables import ROLES


class Repeat(Record):
    """The times on the devices as one measurement of them found them."""

    base_ns: int
    placed_ns: int


class Prediction(Record):
    """Elapsed time by the model, requests one after the other; with queueing the mean response."""

    base_ns: int
    placed_ns: int
    gain_ratio: float
    role_ns: dict[str, int] = msgspec.field(default_factory=dict)
    """On the base device by role, requests one after the other."""
    runner_up_ns: int | None = None
    """None where base is the runner-up, or where its blocks are not known."""
    repeats: list[Repeat] = msgspec.field(default_factory=list)
    """Where the profiles are of several measurements: by each of them."""
    rounds: list[Repeat] = msgspec.field(default_factory=list)
    """At the devices' speeds during each replay, where these were measured between."""


def predict(
    folder: TraceFolder,
    advice: Recommendation,
    *,
    answer: RoleSet | BestAt | UnitAnswer,
    rival: RoleSet | None = None,
    rounds: Sequence[Round] = (),
    repeats: Sequence[Speeds] = (),
) -> Prediction:
    """Return the time of a folder's requests, without NVM and with a placement's blocks on it.

    With speeds during the replays it is that at the middle of them; `repeats` are those of each
    measurement of the devices, which then say how sure the profiles are but for their speed.
    """
    trace = charged_trace(folder, advice)
    profiles = trace.devices
    measured = profiles.measured
    if rounds:
        speed = middle([one for both in rounds for one in both])
        trace = replace(trace, devices=profiles.slowed(*speed))
        measured = _as_fast(measured, repeats, speed)
    times_ns = partial(_times_ns, folder, trace, coverage=advice.coverage)
    found = times_ns(trace.devices, answer)
    if found.base_ns <= 0:
        raise InputError(
            f"{folder.path}: none of the requests to replay costs a device any time",
            hint="raise --duration",
        )
    during = ([times_ns(profiles.slowed(*one), answer) for one in both] for both in rounds)
    return Prediction(
        base_ns=found.base_ns,
        placed_ns=found.placed_ns,
        gain_ratio=1 - found.placed_ns / found.base_ns,
        role_ns={} if advice.is_open else _role_ns(trace),
        runner_up_ns=None if rival is None else times_ns(trace.devices, rival).placed_ns,
        repeats=[times_ns(devices, answer) for devices in measured],
        rounds=[Repeat(base.base_ns, placed.placed_ns) for base, placed in during],
    )


def _as_fast(
    measured: Sequence[DevicePair], repeats: Sequence[Speeds], speed: Speeds
) -> list[DevicePair]:
    """Return the devices as each measurement found them, but for their speed."""
    # Of devices measured once there is no other.
    return [
        pair.slowed(speed.base / own.base, speed.nvm / own.nvm)
        for pair, own in zip(measured, repeats, strict=False)
    ]


def _times_ns(
    folder: TraceFolder,
    trace: ChargedTrace,
    devices: DevicePair,
    placed: RoleSet | BestAt | UnitAnswer,
    *,
    coverage: str,
) -> Repeat:
    """Return what a trace takes on two devices, and as placed there."""
    there = replace(trace, devices=devices)
    if isinstance(placed, RoleSet):
        found = placement_ps(there, placed.blocks, coverage=coverage)
    else:
        read = read_best if isinstance(placed, BestAt) else read_units
        found = time_ps(there, read(folder, trace.touched))
    return Repeat(*map(to_ns, found))


def _role_ns(trace: ChargedTrace) -> dict[str, int]:
    """Return what the requests of each role take on the base device."""
    nothing = np.zeros(1, np.dtype(native.SCENARIO))
    plan = trace.simulation(order_blocks(trace.touched, np.zeros(1, np.int64)), nothing)
    times_ps = native.simulate(plan, trace.rows()).role_service_ps
    return {role: to_ns(ps) for role, ps in zip(ROLES, times_ps, strict=True) if ps}
