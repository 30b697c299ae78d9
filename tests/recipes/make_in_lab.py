"""The four applications of study A in the VM lab, on a disk of the sizes of its Table 1.

`python -m tests.recipes.make_in_lab gnuplot -o sample-traces/gnuplot` captures one of them; with
`--repeat 5` it does so five times, into OUTPUT-1 to OUTPUT-5, and prints what differs between them.
`--uses` runs it with NVM as swap, as journal and as file system, in the guest's own time: Fig. 1.
`--exact` captures on the disk of Fig. 1, whose times and those of the guest do not depend on what
else this machine does; `--seconds` is for how long the film and sysbench last. Needs QEMU, and no
root.
The folder named like the recipe is what the guest gets to see.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.traces import rows_of
from tracekit.analyze import analyze
from tracekit.classify import ClassifyOptions, classify
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.readers.blktrace import parse
from tracekit.repeats import mean_of

HERE = Path(__file__).resolve().parent
SECTORS = {"fs": (2_048, 103_999_487), "journal": (104_001_536, 111_998_975),
           "swap": (112_001_024, 119_998_463)}  # fmt: skip
"""First and last sector of each partition: Table 1 of the study that asks where a small NVM
belongs. The disk is sparse; a logical partition of the study begins a MiB later than one here."""
SIZES = {role: f"{(last + 1 - first) // 2048}MiB" for role, (first, last) in SECTORS.items()}
DISK, NVM = "5ms:1", "2us:1"
"""Latency and depth of the emulated devices of Fig. 1, and of captures in the guest's own time."""


@dataclass(frozen=True)
class Recipe:
    """How an application runs in the lab."""

    packages: tuple[str, ...]
    limit: str
    """Memory of the application, its page cache included."""
    command: tuple[str, ...]
    prepare: str = ""
    """Shell text that runs before the trace begins."""
    memory_mib: int = 1024
    """Memory of the guest."""
    rate: str = ""
    """What an application of a given time prints of what it did; of the others time counts."""


RECIPES = {
    "browser": Recipe(
        ("firefox-esr", "fonts-dejavu-core"),
        "0",
        ("sh", "visit.sh"),
        prepare="python3 pages.py build $LAB_FS/site 12 40",
        memory_mib=2048,
    ),
    "gnuplot": Recipe(
        ("gnuplot-nox",), "96MiB", ("gnuplot-nox", "-e", "points=1200", "surface.gp")
    ),
    "sysbench": Recipe(
        ("mariadb-server-core", "mariadb-client-core", "sysbench"),
        "256MiB",
        ("sh", "transact.sh", "10000", "SECONDS"),
        prepare="sh fill.sh",
        rate=r"transactions: +[0-9]+ +\(([0-9.]+) per sec",
    ),
    "video": Recipe(("ffmpeg",), "96MiB", ("sh", "play.sh"), prepare="sh film.sh SECONDS"),
}


def lasting(recipe: Recipe, seconds: int) -> Recipe:
    """Return the recipe whose film or load lasts so long."""
    command = tuple(word.replace("SECONDS", f"{seconds}") for word in recipe.command)
    return replace(recipe, command=command, prepare=recipe.prepare.replace("SECONDS", f"{seconds}"))


def words(name: str, recipe: Recipe, output: Path, speed: str = "") -> list[str]:
    """Return the options of the lab's commands for a recipe."""
    disks = [word for role, size in SIZES.items() for word in ("--disk", f"{role}={size}{speed}")]
    packages = [word for package in recipe.packages for word in ("--package", package)]
    share = ["--share", str(HERE / name), "--prepare", recipe.prepare, "--limit", recipe.limit]
    memory = ["--memory", f"{recipe.memory_mib}MiB", "--timeout", "3600"]
    return [*disks, *packages, *share, *memory, "-o", str(output)]


def run_lab(command: str, *options: str) -> None:
    """Run a command of the lab."""
    subprocess.run([sys.executable, "-m", "tracekit", "lab", command, *options], check=True)


def make(name: str, output: Path, *, recipe: Recipe, is_exact: bool = False) -> None:
    """Capture the recipe, with the named one's folder, into the new folder `output`."""
    options = words(name, recipe, output, f":{DISK}" if is_exact else "")
    options += ["--compress", "xz", *(["--exact"] if is_exact else [])]
    run_lab("capture", *options, "--", *recipe.command)


def measure(name: str, output: Path, *, repeat: int, recipe: Recipe) -> None:
    """Run the recipe, with the named one's folder, with NVM as each part and none.

    The guest's time is counted in instructions, so that nothing else of this machine is in it.
    """
    rate = ["--throughput", recipe.rate] if recipe.rate else []
    uses = ["--exact", "--nvm", NVM, "--repeat", str(repeat), *rate]
    run_lab("uses", *words(name, recipe, output, f":{DISK}"), *uses, "--", *recipe.command)


def figures(capture: Path, trace: Path) -> dict[str, Any]:
    """Return what Figs. 3, 4 and 6 say of a capture: numbers by name, and the best single uses."""
    folder, _ = parse([capture], trace)
    classify(folder, ClassifyOptions())
    analyze(folder, only=["totals"])
    advice = recommend(folder, RecommendOptions(base="hdd-7200"))
    flips = [flip.after for flip in advice.single_role_flips if flip.after in SIZES]
    found: dict[str, Any] = {"little NVM": flips[0] if flips else "none",
                             "much NVM": flips[-1] if flips else "none"}  # fmt: skip
    rows = rows_of(folder.table("findings/totals"))
    for row in (row for row in rows if row["role"] in SIZES and row["total_sectors"]):
        found[f"{row['role']}: reads and writes"] = row["read_count"] + row["write_count"]
        found[f"{row['role']}: MiB"] = row["total_sectors"] / 2048
        found[f"{row['role']}: touches"] = row["total_sectors"] / row["distinct_sectors"]
    return found


def spread(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each figure over the repeats: mean, 95 % confidence interval, all values."""
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one.get(name, 0.0) for one in found]
        if isinstance(values[0], str):
            yield f"{name}: {', '.join(values)}"
            continue
        mean = mean_of(values)
        ends = "" if mean.low is None else f" ({mean.low:.4g} to {mean.high:.4g})"
        yield f"{name}: {mean.mean:.4g}{ends}; {', '.join(f'{value:.4g}' for value in values)}"


def repeat_captures(
    name: str, output: Path, *, repeat: int, recipe: Recipe, is_exact: bool
) -> None:
    """Capture the recipe several times, and print what differs."""
    found = []
    for number in range(1, repeat + 1):
        capture = output.with_name(f"{output.name}-{number}")
        if not capture.exists():
            make(name, capture, recipe=recipe, is_exact=is_exact)
        found.append(figures(capture, capture.with_name(f"{capture.name}-trace")))
    sys.stdout.writelines(f"{line}\n" for line in spread(found))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=sorted(RECIPES))
    parser.add_argument("-o", "--output", type=Path, required=True, help="new folder")
    parser.add_argument("--repeat", type=int, default=1, help="captures, or runs of each use")
    parser.add_argument("--uses", action="store_true", help="with NVM as each part of the disk")
    parser.add_argument("--exact", action="store_true", help="captures in the guest's own time")
    parser.add_argument("--seconds", type=int, default=60, help="of the film, and of sysbench")
    options = parser.parse_args()
    recipe = lasting(RECIPES[options.recipe], options.seconds)
    name, output, repeat = options.recipe, options.output, options.repeat
    if options.uses:
        measure(name, output, repeat=repeat, recipe=recipe)
    elif repeat > 1:
        repeat_captures(name, output, repeat=repeat, recipe=recipe, is_exact=options.exact)
    else:
        make(name, output, recipe=recipe, is_exact=options.exact)


if __name__ == "__main__":
    main()
