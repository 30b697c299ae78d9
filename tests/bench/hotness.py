"""Block access counts: ours against DuckDB's group by, on the same Parquet file in one run.

Each side runs in a process of its own, so that its peak memory is its own. Both read the same
columns and write the blocks as Parquet, sorted; DuckDB gets one thread and the memory that the
whole pipeline may take. Ours also finds roles, distinct sectors, temperature and working set.

    python tests/bench/hotness.py --requests 5000000 --blocks-each 4 /tmp/folder
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit.classify.hotness import TemperatureRule, Windows, count_blocks, write_blocks
from tracekit.store import write_batches
from tracekit.tables import OPERATIONS, REQUESTS, ROLES

CHUNK = 1 << 20
DEVICE_BLOCKS = 1 << 28  # 1 TiB
GAP_NS = 50_000
SIDES = ("tracekit", "duckdb")
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


def text(indices: Any, values: tuple[str, ...]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), pa.array(values))


def chunks(requests: int, blocks_each: int, spread: str) -> Iterator[Any]:
    """Yield rows of REQUESTS: `zipf` re-touches a skewed set, `uniform` seldom hits twice."""
    random = np.random.default_rng(2026)
    for first in range(0, requests, CHUNK):
        rows = min(CHUNK, requests - first)
        if spread == "zipf":
            rank = (np.power(2.0, 22 * random.random(rows)) - 1).astype(np.int64)
            block = rank * 40503 % (DEVICE_BLOCKS // blocks_each) * blocks_each
        else:
            block = random.integers(0, DEVICE_BLOCKS // blocks_each, rows) * blocks_each
        zero = np.zeros(rows, np.int64)
        known = {
            "request_id": np.arange(first, first + rows),
            "queue_ns": np.arange(first, first + rows) * GAP_NS,
            "device": text(zero, ("sda",)),
            "sector": block * 8,
            "length_bytes": zero + blocks_each * 4096,
            "operation": text(random.integers(0, 2, rows), OPERATIONS),
            "role": text(zero, ROLES),
        }
        columns = [
            known[field.name] if field.name in known else empty(field, rows) for field in REQUESTS
        ]
        yield pa.record_batch([pa.array(column) for column in columns], schema=REQUESTS)


def empty(field: Any, rows: int) -> Any:
    if field.nullable:
        return pa.nulls(rows, field.type)
    return pa.array(np.zeros(rows), pa.float64()).cast(field.type)


def run_tracekit(file: Path, requests: int) -> int:
    windows = Windows(max(1, requests * GAP_NS // 200), 201)
    counts = count_blocks(file, ["sda"], windows=windows)
    with counts.spill:
        output = file.with_name("blocks.parquet")
        write_blocks(output, counts, devices=["sda"], rule=TemperatureRule())
        return counts.histogram.blocks


def run_duckdb(file: Path, _requests: int) -> int:
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 1; set memory_limit = '1GiB'")
    connection.execute(f"set temp_directory = '{file.parent}'")
    output = file.with_name("blocks_of_duckdb.parquet")
    copy = f"copy ({GROUP_BY} order by block) to '{output}' (compression zstd)"
    row = connection.execute(copy, {"file": str(file)}).fetchone()
    return int(row[0]) if row else 0


def measure(side: str, file: Path, requests: int) -> dict[str, float]:
    run = {"tracekit": run_tracekit, "duckdb": run_duckdb}[side]
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    blocks = run(file, requests)
    elapsed_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"elapsed_s": elapsed_s, "cpu_s": cpu_s, "peak_mib": peak / 1024, "blocks": blocks}


def in_own_process(side: str, arguments: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, str(arguments.folder), "--side", side]
    command += ["--requests", str(arguments.requests)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=5_000_000)
    parser.add_argument("--blocks-each", type=int, default=4)
    parser.add_argument("--spread", choices=("zipf", "uniform"), default="zipf")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", choices=SIDES)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    file = arguments.folder / "requests.parquet"
    if arguments.side:
        sys.stdout.write(json.dumps(measure(arguments.side, file, arguments.requests)))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = chunks(arguments.requests, arguments.blocks_each, arguments.spread)
    write_batches(file, rows, schema=REQUESTS)
    touches = arguments.requests * arguments.blocks_each
    best: dict[str, dict[str, float]] = {}
    for _ in range(arguments.repeats):
        for side in SIDES:
            result = in_own_process(side, arguments)
            if side not in best or result["elapsed_s"] < best[side]["elapsed_s"]:
                best[side] = result
    for side, result in best.items():
        speed = touches / result["elapsed_s"] / 1e6
        sys.stdout.write(
            f"{side:<9} {result['elapsed_s']:7.2f} s {result['cpu_s']:7.2f} cpu-s"
            f" {speed:7.1f} M touches/s"
            f" {result['peak_mib']:7.0f} MiB {result['blocks']:,.0f} blocks\n"
        )
    for name in ("elapsed_s", "cpu_s"):
        ratio = best["duckdb"][name] / best["tracekit"][name]
        sys.stdout.write(f"ratio of {name} {ratio:.1f}\n")


if __name__ == "__main__":
    main()
