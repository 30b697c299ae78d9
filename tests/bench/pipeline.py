"""Every stage from parse to report on synthetic captures of growing length."""

import shutil
from functools import partial

from tests.bench.generate import write_capture
from tests.bench.harness import Bench, tracekit

STAGES = {
    "parse": ["parse", "{capture}", "-o", "{trace}", "--force"],
    "classify": ["classify", "{trace}"],
    "analyze": ["analyze", "{trace}"],
    "recommend": ["recommend", "{trace}"],
    "replay": ["replay", "{trace}", "--engine", "null", "--pace", "fast"],
    "report": ["report", "{trace}"],
}
LIMIT_MIB = 1024


def bench_pipeline(out: Bench, *, requests: tuple[int, ...] = (2_000_000, 20_000_000)) -> None:
    """Print time, peak memory and cost a request, so that growth that is not linear shows at once.

    The growth is of the cost of a request, over that of the length before.
    """
    before: dict[str, float] = {}
    for length in requests:
        capture = out.input(f"capture-{length}", partial(write_capture, requests=length, seed=1))
        trace = out.scratch / "trace"
        for stage, words in STAGES.items():
            used = tracekit(*(word.format(capture=capture, trace=trace) for word in words))
            ns = used.wall_s / length * 1e9
            row = {"wall_s": used.wall_s, "peak_mib": used.peak_mib, "ns_a_request": ns}
            row["growth"] = ns / before.get(stage, ns)
            out.row(f"{length:,} requests: {stage}", **row)
            before[stage] = ns
            if used.peak_mib > LIMIT_MIB:
                out.note(f"{stage}: more than the limit of {LIMIT_MIB} MiB")
        shutil.rmtree(trace)
