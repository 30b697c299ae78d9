"""The best placement on the samples: against its bound, the answer by roles, and what it costs."""

from functools import partial
from pathlib import Path

import numpy as np

from tests.bench.harness import Bench, timed, tracekit
from tests.bench.inputs import ROOT
from tracekit.devices import DevicePair, load_profiles
from tracekit.model import answer as choice
from tracekit.model.best_choice import HEADLINE_PARTS, Rivals
from tracekit.model.best_placement import searching
from tracekit.model.block_orders import read_blocks
from tracekit.model.placement import ChargedTrace, curves_at

SAMPLES = ("browser", "gnuplot", "oltp", "sysbench", "video")
PAIRS = ("hdd-7200:dax-pcm", "ssd-sata:ssd-optane")


def make_folder(folder: Path, sample: str) -> None:
    source = ROOT / "sample-traces" / sample
    tracekit("parse", source, "-o", folder)
    tracekit("classify", folder)


def compare(out: Bench, name: str, folder: Path, pair: DevicePair, capacities: int) -> None:
    """Find the best placement at capacities that grow evenly to the footprint."""
    touched = read_blocks(folder / "blocks.parquet")
    trace = ChargedTrace(folder / "requests.parquet", touched, pair, is_issued=True)
    sizes = np.linspace(0, len(touched.keys), capacities + 1)[1:].astype(int)
    curves = curves_at(trace, np.append(0, np.unique(sizes)))
    answers = choice.find_answers(curves, "hottest").by_point
    rivals = Rivals(trace, curves, is_mixed=False)

    def work() -> list[tuple[float, float, float]]:
        rows = []
        with searching(trace) as search:
            for index in range(1, len(curves.points)):
                capacity = int(curves.points[index])
                found = search.find(capacity, list(rivals.at(index)), parts=HEADLINE_PARTS)
                best = min(found.elapsed_ps, *(r.elapsed_ps or 0 for r in rivals.at(index)))
                if best < found.elapsed_ps:
                    raise SystemExit(f"{name}: an order is better than the best at {capacity}")
                old = answers[index].elapsed_ns * 1000
                gap = found.elapsed_ps / max(found.bound_ps or 1, 1) - 1
                gain = 1 - found.elapsed_ps / curves.base_total_ps
                rows.append((gap, 1 - found.elapsed_ps / old, gain))
        return rows

    rows, used = timed(work)
    gaps, ahead, _ = (np.array(column) for column in zip(*rows, strict=True))
    out.row(
        f"{name} {pair.base.name}",
        capacities=len(rows),
        gap_median=float(np.median(gaps)),
        gap_worst=float(gaps.max()),
        within_3=int((gaps <= 0.03).sum()),
        ahead_median=float(np.median(ahead)),
        ahead_most=float(ahead.max()),
        worse=int((ahead < -1e-9).sum()),
        cpu_s=used.cpu_s,
    )


def bench_best_placement(
    out: Bench, *, samples: tuple[str, ...] = SAMPLES, capacities: int = 20
) -> None:
    """Compare the best placement found with its bound and with the answer by roles."""
    known = load_profiles()
    for name in samples:
        folder = out.input(f"classified-{name}", partial(make_folder, sample=name))
        for pair in PAIRS:
            devices = DevicePair(*(known[one] for one in pair.split(":")))
            compare(out, name, folder, devices, capacities)
