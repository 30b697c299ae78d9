"""Capture, characterize and replay block I/O traces; decide where a small fast memory belongs.

`import tracekit as tk`; then `tk.parse`, `tk.read`, `tk.open` or `tk.generate` give a `Trace`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tracekit.errors import (
    BudgetError,
    InputError,
    PartialError,
    TracekitError,
    UnclearError,
    UsageError,
)
from tracekit.version import __version__

if TYPE_CHECKING:
    from tracekit.api.measure import (
        bench,
        bench_files,
        characterize_device,
        compare,
        counters,
        doctor,
        formats,
        personalities,
        profiles,
        report,
        sweep,
        verify_certificate,
    )
    from tracekit.api.relation import Relation
    from tracekit.api.results import (
        Analysis,
        Bench,
        BufferSimulation,
        CacheSimulation,
        Change,
        Classification,
        Comparison,
        Counters,
        DeviceProfiles,
        DeviceStudy,
        Endurance,
        Export,
        Fit,
        Formats,
        Personalities,
        Purchase,
        Recommendation,
        Replay,
        Report,
        Result,
        Run,
        Sensitivity,
        Sweep,
        TierSimulation,
        Verification,
    )
    from tracekit.api.set_results import (
        SetCaches,
        SetGroups,
        SetRecommendation,
        SetReport,
        SetRun,
        SetTiers,
    )
    from tracekit.api.sets import Set, SetSimulate, add_to_set, open_set, read_set
    from tracekit.api.simulate import Simulate
    from tracekit.api.start import (
        Capture,
        FileCapture,
        StorageLayout,
        capture,
        capture_files,
        describe_disks,
        generate,
        parse,
        read,
        recover,
        run,
    )
    from tracekit.api.stored import open  # noqa: A004 - tk.open opens a trace folder
    from tracekit.api.trace import Trace

__all__ = [
    "Analysis",
    "Bench",
    "BudgetError",
    "BufferSimulation",
    "CacheSimulation",
    "Capture",
    "Change",
    "Classification",
    "Comparison",
    "Counters",
    "DeviceProfiles",
    "DeviceStudy",
    "Endurance",
    "Export",
    "FileCapture",
    "Fit",
    "Formats",
    "InputError",
    "PartialError",
    "Personalities",
    "Purchase",
    "Recommendation",
    "Relation",
    "Replay",
    "Report",
    "Result",
    "Run",
    "Sensitivity",
    "Set",
    "SetCaches",
    "SetGroups",
    "SetRecommendation",
    "SetReport",
    "SetRun",
    "SetSimulate",
    "SetTiers",
    "Simulate",
    "StorageLayout",
    "Sweep",
    "TierSimulation",
    "Trace",
    "TracekitError",
    "UnclearError",
    "UsageError",
    "Verification",
    "__version__",
    "add_to_set",
    "bench",
    "bench_files",
    "capture",
    "capture_files",
    "characterize_device",
    "compare",
    "counters",
    "describe_disks",
    "doctor",
    "formats",
    "generate",
    "open",
    "open_set",
    "parse",
    "personalities",
    "profiles",
    "read",
    "read_set",
    "recover",
    "report",
    "run",
    "sweep",
    "verify_certificate",
]


PARTS = ("trace", "stored", "start", "measure", "results", "relation", "simulate", "sets")


class _Package(ModuleType):
    """Imports what it offers when it is first used, so that `import tracekit` is quick."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        modules = (import_module(f"tracekit.api.{part}") for part in PARTS)
        return next(getattr(module, name) for module in modules if hasattr(module, name))

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds a part such as tracekit.capture here, where a function of that
        # name is offered.
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
