"""Make the text of a trace of many volumes of very different sizes, in the format of AliCloud's.

`python -m tests.recipes.make_set out/set.csv --volumes 500 --requests 2000000`, and then
`tracekit import out/set.csv --split-by volume -o out/set`. Each volume has the reads and writes of
a shipped work profile; sizes follow Zipf's law; each begins and ends anywhere in the same hour.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

import tracekit as tk

PROFILES = ("web-server", "paging", "log-structured")
FEWEST = 200
FIRST_US = 1_577_808_000_000_000
HOUR_US = 3_600_000_000
SHORTEST_US = 60_000_000


def volume(number: int, requests: int, chance: np.random.Generator) -> pa.Table:
    """Return the rows of a volume: device, operation, offset, length, time."""
    with tempfile.TemporaryDirectory() as scratch:
        made = tk.generate(
            str(chance.choice(PROFILES)), Path(scratch) / "trace", requests=requests, seed=number
        )
        rows = (
            made.requests.filter("operation in ('read', 'write')")
            .select("upper(left(operation, 1)) as op, sector, length_bytes, queue_ns")
            .to_arrow_table()
        )
    first_us = chance.integers(HOUR_US - SHORTEST_US)
    long_us = chance.integers(SHORTEST_US, HOUR_US - first_us, endpoint=True)
    times = rows["queue_ns"].to_numpy().astype(float)
    times *= long_us / max(times.max(), 1)
    return pa.table(
        {
            "device": np.full(len(rows), number),
            "op": rows["op"],
            "offset": rows["sector"].to_numpy() * 512,
            "length": rows["length_bytes"],
            "time": times.astype(np.int64) + FIRST_US + first_us,
        }
    )


def main() -> None:
    """Write the text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--volumes", type=int, default=500)
    parser.add_argument("--requests", type=int, default=2_000_000)
    chosen = parser.parse_args()
    chance = np.random.default_rng(7)
    weights = 1 / np.arange(1, chosen.volumes + 1)
    sizes = np.maximum((weights / weights.sum() * chosen.requests).astype(int), FEWEST)
    chance.shuffle(sizes)
    parts = [volume(number, size, chance) for number, size in enumerate(sizes.tolist(), 1)]
    options = pc.WriteOptions(include_header=False, quoting_style="none")
    pc.write_csv(pa.concat_tables(parts).sort_by("time"), chosen.output, options)


if __name__ == "__main__":
    main()
