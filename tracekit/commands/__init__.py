"""The commands, one file each; the order of this tuple is the order in the help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand

from tracekit.commands.analyze import analyze
from tracekit.commands.bench import bench
from tracekit.commands.capture import DevicesAndCommand, capture
from tracekit.commands.characterize_device import characterize_device
from tracekit.commands.classify import classify
from tracekit.commands.compare import compare
from tracekit.commands.counters import counters
from tracekit.commands.doctor import doctor
from tracekit.commands.export import export
from tracekit.commands.fit import fit
from tracekit.commands.generate import generate
from tracekit.commands.import_ import import_
from tracekit.commands.lab import LAB, lab
from tracekit.commands.parse import parse
from tracekit.commands.recommend import recommend
from tracekit.commands.replay import replay
from tracekit.commands.report import report
from tracekit.commands.run import run
from tracekit.commands.simulate import SIMULATIONS, simulate
from tracekit.commands.sql import sql
from tracekit.commands.sweep import sweep
from tracekit.commands.verify_placement import verify_placement

COMMANDS: tuple[Callable[..., Any], ...] = (
    capture,
    lab,
    parse,
    import_,
    generate,
    fit,
    export,
    classify,
    analyze,
    recommend,
    simulate,
    replay,
    bench,
    compare,
    verify_placement,
    characterize_device,
    counters,
    sweep,
    report,
    sql,
    run,
    doctor,
)

# Commands that read their words in a way of their own.
CLASSES: dict[Callable[..., Any], type[TyperCommand]] = {capture: DevicesAndCommand}

# A command that is a group, and its sub-commands.
GROUPS: dict[Callable[..., Any], tuple[Callable[..., Any], ...]] = {lab: LAB, simulate: SIMULATIONS}

# Commands that run a program of the user's, which inherits our environment.
RUN_PROGRAMS: tuple[Callable[..., Any], ...] = (capture, counters, lab)
