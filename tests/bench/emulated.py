"""How exact emulated service times are."""

import numpy as np

from tests.bench.harness import Bench
from tests.replay.program import record, run, write_plan
from tracekit.plans.block_plan import READ

# Study B's devices: name, service time and gap in ns, requests.
DEVICES = (
    ("PCM SSD, 6.7 us", 6_700, 20_000, 20_000),
    ("flash, 108 us", 108_000, 200_000, 20_000),
    ("disk, 5 ms", 5_000_000, 8_000_000, 500),
)


def bench(out: Bench, *, divisor: int = 1) -> None:
    """Read on four lanes, further apart than the device is slow: no request waits for another.

    A row has the error in ns, the share of a processor, and the time that was spun before requests
    were due.
    """
    random = np.random.default_rng(1)
    for name, service_ns, gap_ns, requests in DEVICES:
        sectors = random.integers(0, 1 << 20, requests // divisor) * 8
        rows = [record(READ, int(s), 8, at_ns=i * gap_ns) for i, s in enumerate(sectors)]
        plan = write_plan(out.scratch / "a.plan", rows)
        spec = f"read_setup_ns={service_ns},read_bytes_s=4096000000000,write_setup_ns=1"
        spec += ",write_bytes_s=1,flush_ns=1,fua_ns=1,lanes=4"
        ran = run(plan, "--engine", "emulated", "--emulate", spec)
        done = ran.rows()
        error = (done["complete_ns"] - done["submit_ns"]).astype(np.int64) - service_ns - 1
        p50, p99 = map(float, np.percentile(error, [50, 99]))
        timing, cost = ran.summary["timing"], ran.summary["fidelity"]
        used = (cost["cpu_user_ns"] + cost["cpu_system_ns"]) / timing["elapsed_ns"]
        errors = {"mean_ns": float(error.mean()), "p50_ns": p50, "p99_ns": p99}
        out.row(name, **errors, processor=used, spun_ns=ran.summary["clock"]["spin_lead_ns"])
