"""Run the benchmarks: `python -m tests.bench [NAME...] [--small] [--folder out/bench] [OPTION...]`.

All of them without a name, each in a process of its own. Options of a single one are the keywords
of its function: `python -m tests.bench decode --records 1000000`. Inputs are made once, in
FOLDER/inputs; the figures are printed as a table and written to FOLDER/NAME.json.
"""

import argparse
import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.harness import SKIPS, Bench, Failed

# Each name with the smallest sizes that it works with, which --small takes.
BENCHES: dict[str, dict[str, Any]] = {
    "decode": {"records": 50_000, "rounds": 1},
    "texts": {"lines": 20_000, "rounds": 1},
    "binaries": {"records": 20_000, "rounds": 1},
    "block_capture": {"rounds": 1, "seconds": 1},
    "file_capture": {"lines": 20_000},
    "unseen": {"runs": 1},
    "capture_faults": {"runs": 1},
    "file_names": {"files": 20},
    "capture_losses": {"requests": 1_000, "rounds": 1},
    "hotness": {"requests": 50_000, "rounds": 1},
    "analyze": {"requests": 20_000, "rounds": 1},
    "cache": {"references": (50_000,), "rounds": 1, "samples": 2_000},
    "cache_peer": {"references": 50_000, "rounds": 1},
    "samples": {"references": 50_000, "pages": 10_000, "samples": (1_000,), "repeats": 2},
    "tiers": {"extents": 2_000},
    "placement": {"requests": 20_000},
    "one_disk": {"samples": "browser", "devices": "hdd-7200"},
    "best_placement": {"samples": ("video",), "capacities": 3},
    "exact_placement": {"samples": ("video",), "requests": 40},
    "profiles": {"requests": 50_000, "rounds": 1},
    "arrivals": {"requests": 2_000, "repeats": 1},
    "replay": {"requests": (5_000,), "rounds": 1},
    "fast": {"requests": 5_000, "rounds": 2},
    "cost": {"requests": 5_000, "rounds": 1, "depths": (32,)},
    "rate": {"requests": 20_000, "rounds": 1},
    "emulated": {"divisor": 20},
    "dax": {"copies": 5_000, "rounds": 2},
    "peers": {"count": 300, "rate": 2_000, "rounds": 1},
    "closed": {"requests": 1_000, "seconds": 1, "rounds": 1},
    "characterize": {"scale": 0.002, "requests": 500, "rounds": 1},
    "files": {"loops": 100, "rounds": 1},
    "slow_memory": {"most": 32},
    "filebench": {"seconds": 2, "rounds": 1, "files": 1000},
    "pipeline": {"requests": (5_000, 20_000)},
}


MODULES = {
    "reading": ("decode", "texts", "binaries"),
    "capturing": (
        *("block_capture", "file_capture", "unseen", "capture_faults", "capture_losses"),
        "file_names",
    ),
    "caches": ("cache", "cache_peer", "samples"),
    "placement": ("placement", "one_disk", "best_placement", "exact_placement"),
    "playing": ("replay", "fast", "cost", "rate", "emulated", "dax", "closed"),
    "file_playing": ("files", "slow_memory", "filebench"),
    "stages": ("pipeline", "analyze", "hotness", "profiles"),
}
"""The modules of several benches; another one has a module of its name."""


def function_of(name: str) -> Callable[..., None]:
    module = next((key for key, names in MODULES.items() if name in names), name)
    found: Callable[..., None] = getattr(
        importlib.import_module(f"tests.bench.{module}"), f"bench_{name}"
    )
    return found


def add_options(parser: argparse.ArgumentParser, function: Callable[..., None]) -> None:
    """Add an option for each keyword: its type is that of its default."""
    for key, one in list(inspect.signature(function).parameters.items())[1:]:
        kind: dict[str, Any] = {"type": type(one.default), "default": one.default}
        if isinstance(one.default, bool):
            kind = {"action": "store_true"}
        elif isinstance(one.default, tuple):
            kind |= {"type": type(one.default[0]), "nargs": "+"}
        elif one.default is None:
            kind["type"] = Path if "Path" in str(one.annotation) else str
        parser.add_argument(f"--{key.replace('_', '-')}", **kind)


def run_one(name: str, common: argparse.Namespace, rest: list[str]) -> None:
    function = function_of(name)
    parser = argparse.ArgumentParser(prog=f"tests.bench {name}", description=function.__doc__)
    add_options(parser, function)
    if common.small:
        parser.set_defaults(**BENCHES[name])
    options = vars(parser.parse_args(rest))
    print(f"{name}: {', '.join(f'{k} {v}' for k, v in options.items())}")
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    bench = Bench(name, common.folder)
    try:
        function(bench, **options)
    except SKIPS as reason:
        bench.note(f"{name}: not measured: {reason}")
    except Failed as error:
        sys.exit(f"{name}: {error}")
    bench.save(options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--small", action="store_true", help="with the smallest sizes, to try it")
    parser.add_argument("--folder", type=Path, default=Path("out/bench"))
    common, rest = parser.parse_known_args()
    names = common.names or ([] if "--help" in rest else list(BENCHES))
    if not names or not set(names) <= set(BENCHES):
        parser.print_help()
        print(f"names: {' '.join(BENCHES)}")
        return len(names) > 0
    common.folder = common.folder.absolute()
    if len(names) == 1:
        run_one(names[0], common, rest)
        return 0
    flags = [*(["--small"] if common.small else []), "--folder", str(common.folder), *rest]
    command = [sys.executable, "-m", "tests.bench"]
    return max(subprocess.run([*command, name, *flags], check=False).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main())
