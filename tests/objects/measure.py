"""Requests and bytes of the stages of a set in object storage, as a server sees them.

python -m tests.objects.measure [REQUESTS...], of each volume of eight; one table of Markdown.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tracekit as tk
from tests.objects.server import Line, Server, make_bucket, server

VOLUMES = 8
STAGES = (
    *("import --split-by volume", "classify", "classify again", "analyze", "analyze again"),
    *("recommend", "set groups", "report"),
)
HEAD = ("stage, requests", "GET", "HEAD", "PUT", "other", "MB fetched", "MB put", "processor s")
NEVER = 1 << 60


def main(counts: list[int]) -> None:
    """Print a line for each number of requests and stage."""
    _say(HEAD)
    _say(["---"] * len(HEAD))
    with tempfile.TemporaryDirectory(prefix="tracekit-objects-") as name, server(Path(name)) as one:
        line = Line(one.port, uploads=NEVER)
        os.environ |= one.variables | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{line.port}"}
        for count in counts:
            source = Path(name) / f"{count}.csv"
            source.write_text("".join(_lines(count)))
            url = f"{make_bucket(f'set-{count}')}/set"
            for stage in STAGES:
                words = [*stage.removesuffix(" again").split(), url]
                if stage.startswith("import"):
                    more = ("--format", "alibaba", "--force-units", "-o", url)
                    words = ["import", str(source), "--split-by", "volume", *more]
                _say([f"{stage}, {count * VOLUMES:,}", *_measured(one, line, words)])


def _lines(count: int) -> Iterator[str]:
    rows = tk.generate("web-server", requests=count).requests.df()
    columns = (rows[name].tolist() for name in ("queue_ns", "sector", "length_bytes", "operation"))
    for time_ns, sector, length, operation in zip(*columns, strict=True):
        what = f"{'W' if operation == 'write' else 'R'},{sector * 512},{length},{time_ns // 1000}"
        yield from (f"v{volume},{what}\n" for volume in range(VOLUMES))


def _measured(one: Server, line: Line, words: list[str]) -> Iterator[str]:
    before, begin = len(one.requests()), resource.getrusage(resource.RUSAGE_CHILDREN)
    up, down = line.bytes_up, line.bytes_down
    subprocess.run([sys.executable, "-m", "tracekit", *words], check=True, capture_output=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = Counter(method for method, _ in one.requests()[before:])
    other = found.total() - sum(found[name] for name in HEAD[1:4])
    yield from (f"{count:,}" for count in (*(found[name] for name in HEAD[1:4]), other))
    yield from (f"{moved / 1e6:.1f}" for moved in (line.bytes_down - down, line.bytes_up - up))
    yield f"{end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime:.1f}"


def _say(cells: list[str] | tuple[str, ...]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main([*map(int, sys.argv[1:])] or [1000, 100_000])
