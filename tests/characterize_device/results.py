"""Steps as a device without any noise would do them."""

from typing import Any

import numpy as np

from tracekit.device.latencies import ALL, Latencies
from tracekit.device.steps import Amounts, Step, steps

SIZE_BYTES = 1 << 30


def exact(step: Step, cost: Any, lanes: int) -> dict[str, Any]:
    """Return the result of a step where `cost(step, operation)` is the service time in ns."""
    names = ["flush"] if step.is_flushed else []
    names += ["write"] if step.write_ratio > 0 else []
    names += ["read"] if step.write_ratio < 1 else []
    operations, everything = {}, Latencies()
    for name in names:
        one = Latencies()
        values = np.full(10, round(cost(step, name)), np.int64)
        one.add(values)
        everything.add(values)
        operations[name] = one.as_dict()
    share = step.write_ratio
    mean_s = (share * cost(step, "write") + (1 - share) * cost(step, "read")) / 1e9
    return {
        "step": step.as_dict(),
        "elapsed_ns": 10**9,
        "iops": min(step.depth, lanes) / mean_s,
        "usual_iops": min(step.depth, lanes) / mean_s,
        "operations": {ALL: everything.as_dict(), **operations},
    }


def device(
    *, read_ns: float, write_ns: float, read_rate: float, write_rate: float, lanes: int,
    flush_ns: float = 5e5, fua_ns: float = 0.0, next_ns: float | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return all steps of a device with these setups in ns and rates in bytes a second."""

    def cost(step: Step, operation: str) -> float:
        if operation == "flush":
            return flush_ns
        setup = read_ns if operation == "read" else write_ns
        if step.is_sequential and next_ns is not None:
            setup = next_ns
        setup += fua_ns if step.is_forced else 0
        rate = read_rate if operation == "read" else write_rate
        return setup + step.length_bytes / rate * 1e9

    return [exact(step, cost, lanes) for step in steps(Amounts(), SIZE_BYTES)]
