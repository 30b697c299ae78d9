"""Stages of the pipeline: each on growing captures, analyses, block counts, profiles of work."""

import os
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from tests.bench.generate import write_capture
from tests.bench.harness import Bench, Used, isolated, timed, tracekit
from tests.bench.inputs import classified, coded, request_batches
from tracekit import query
from tracekit.analyze import CHECKS, possible
from tracekit.classify.hotness import TemperatureRule, Windows, count_blocks, write_blocks
from tracekit.store import TraceFolder, write_batches
from tracekit.tables import OPERATIONS, REQUESTS, ROLES
from tracekit.workload.generate import generate, open_profile
from tracekit.workload.model import Profile
from tracekit.workload.reader import shipped
from tracekit.workload.requests import Extent, blocks

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


def measure(trace: Path, name: str, memory_mib: int) -> tuple[int, float]:
    """Return rows and seconds of one analysis."""
    with query.connect(TraceFolder(trace), memory_mib=memory_mib) as connection:
        began_s = time.perf_counter()
        return len(query.run(connection, name)), time.perf_counter() - began_s


def bench_analyze(
    out: Bench, *, trace: Path | None = None, requests: int = 2_000_000,
    memory: int = query.DEFAULT_MEMORY_MIB, rounds: int = 1,
) -> None:  # fmt: skip
    """Run each analysis of a classified trace folder: `trace`, or that of a synthetic capture.

    Each has a database of its own: what several take from one pass, each of them pays here.
    """
    folder = trace or classified(out, requests)
    for name in (*possible(TraceFolder(folder)), *CHECKS):
        runs = [isolated(measure, folder, name, memory) for _ in range(rounds)]
        seconds = statistics.median(seconds for (_, seconds), _ in runs)
        peak_mib = max(used.peak_mib for _, used in runs)
        out.row(name, rows=runs[0][0][0], wall_s=seconds, peak_mib=peak_mib)


DEVICE_BLOCKS = 1 << 28  # 1 TiB
GAP_NS = 50_000
GROUP_BY = """
    select
        block,
        count(*) filter (operation = 'read') as reads,
        count(*) filter (operation = 'write') as writes,
        min(queue_ns) as first_ns,
        max(queue_ns) as last_ns,
        bit_or(sectors) as sectors,
    from (
        select
            operation,
            queue_ns,
            255 as sectors, -- every request here covers whole blocks
            unnest(range(sector // 8, (sector + length_bytes // 512 - 1) // 8 + 1)) as block,
        from read_parquet($file)
    )
    group by block
"""


def write_requests(file: Path, requests: int, blocks_each: int, spread: str) -> None:
    """Write REQUESTS: `zipf` touches a skewed set again, `uniform` seldom hits twice."""
    random = np.random.default_rng(2026)

    def chunk(first: int, rows: int) -> dict[str, Any]:
        if spread == "zipf":
            rank = (np.power(2.0, 22 * random.random(rows)) - 1).astype(np.int64)
            block = rank * 40503 % (DEVICE_BLOCKS // blocks_each) * blocks_each
        else:
            block = random.integers(0, DEVICE_BLOCKS // blocks_each, rows) * blocks_each
        zero = np.zeros(rows, np.int64)
        return {
            "queue_ns": np.arange(first, first + rows) * GAP_NS,
            "device": coded(zero, ("sda",)),
            "sector": block * 8,
            "length_bytes": zero + blocks_each * 4096,
            "operation": coded(random.integers(0, 2, rows), OPERATIONS),
            "role": coded(zero, ROLES),
        }

    write_batches(file, request_batches(requests, chunk), schema=REQUESTS)


def by_tracekit(file: Path, output: Path, requests: int) -> int:
    windows = Windows(max(1, requests * GAP_NS // 200), 201)
    counts = count_blocks(file, ["sda"], windows=windows)
    with counts.spill:
        write_blocks(output, counts, devices=["sda"], rule=TemperatureRule())
        return counts.histogram.blocks


def by_duckdb(file: Path, output: Path, _requests: int) -> int:
    connection = duckdb.connect()
    connection.execute("set threads = 1; set memory_limit = '1GiB'")
    connection.execute(f"set temp_directory = '{output.parent}'")
    copy = f"copy ({GROUP_BY} order by block) to '{output}' (compression zstd)"
    row = connection.execute(copy, {"file": str(file)}).fetchone()
    return int(row[0]) if row else 0


def bench_hotness(
    out: Bench, *, requests: int = 5_000_000, blocks_each: int = 4, spread: str = "zipf",
    rounds: int = 3,
) -> None:  # fmt: skip
    """Each side runs in a process of its own, so that its peak memory is its own.

    Both read the same columns and write the blocks as Parquet, sorted; DuckDB gets one thread and
    the memory that the whole pipeline may take. Ours also finds roles, distinct sectors,
    temperature and working set.
    """
    make = partial(write_requests, requests=requests, blocks_each=blocks_each, spread=spread)
    file = out.input(f"requests-{spread}-{requests}-{blocks_each}.parquet", make)
    runs: dict[str, list[Used]] = {}
    blocks: dict[str, int] = {}

    def side(name: str, function: Callable[[Path, Path, int], int]) -> float:
        output = out.scratch / f"{name}.parquet"
        blocks[name], used = isolated(function, file, output, requests)
        runs.setdefault(name, []).append(used)
        return requests * blocks_each / used.wall_s / 1e6

    sides = {"duckdb": partial(side, "duckdb", by_duckdb)}
    sides["tracekit"] = partial(side, "tracekit", by_tracekit)
    out.compare(spread, sides, rounds=rounds, unit="M touches/s")
    for name, used in runs.items():
        wall_s, cpu_s = min(one.wall_s for one in used), min(one.cpu_s for one in used)
        peak_mib = max(one.peak_mib for one in used)
        figures = {"wall_s": wall_s, "cpu_s": cpu_s, "peak_mib": peak_mib}
        out.row(f"{spread}: {name}", **figures, blocks=blocks[name])


def dropped(profile: Profile, count: int, _folder: Path) -> None:
    assert sum(len(block) for block in blocks(profile, Extent(count))) == count


def planned(profile: Profile, count: int, folder: Path) -> None:
    generate(profile, folder / "plan", form="plan", extent=Extent(count))
    (folder / "plan").unlink()


def traced(profile: Profile, count: int, folder: Path) -> None:
    generate(profile, folder / "trace", form="trace", extent=Extent(count))
    shutil.rmtree(folder / "trace")


# A trace folder gets a tenth of the requests.
WAYS: dict[str, tuple[Callable[[Profile, int, Path], None], int]] = {
    "in memory": (dropped, 1),
    "plan": (planned, 1),
    "trace folder": (traced, 10),
}


def rate(profile: Profile, way: str, requests: int, folder: Path) -> float:
    function, share = WAYS[way]
    return requests // share / timed(function, profile, requests // share, folder)[1].wall_s / 1e6


def bench_profiles(out: Bench, *, requests: int = 20_000_000, rounds: int = 3) -> None:
    """On one processor core and on as many as there are."""
    every = os.sched_getaffinity(0)
    for cores in ({min(every)}, every):
        os.sched_setaffinity(0, cores)
        for name in shipped():
            profile = open_profile(name)
            ways = {way: partial(rate, profile, way, requests, out.scratch) for way in WAYS}
            out.compare(f"{name}, {len(cores)} cores", ways, rounds=rounds, unit="M a second")
