"""Block access counts: ours against DuckDB's group by, on the same Parquet file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from tests.bench.harness import Bench, Used, isolated
from tests.bench.inputs import coded, request_batches
from tracekit.classify.hotness import TemperatureRule, Windows, count_blocks, write_blocks
from tracekit.store import write_batches
from tracekit.tables import OPERATIONS, REQUESTS, ROLES

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
