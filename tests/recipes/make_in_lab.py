"""Make a sample trace in the VM lab: an application in a guest whose disk has three roles.

`python -m tests.recipes.make_in_lab gnuplot -o sample-traces/gnuplot`; needs QEMU, and no root.
The folder named like the recipe is what the guest gets to see.
"""

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DISKS = ("--disk", "fs=2GiB", "--disk", "journal=256MiB", "--disk", "swap=512MiB")
"""The sizes of Table 1 of the study that asks where a small NVM belongs."""


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


RECIPES = {
    "browser": Recipe(
        ("chromium", "fonts-dejavu-core"),
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
        ("sh", "transact.sh"),
        prepare="sh fill.sh",
    ),
    "video": Recipe(("ffmpeg",), "96MiB", ("sh", "play.sh"), prepare="sh film.sh"),
}


def make(name: str, output: Path, *, recipe: Recipe | None = None) -> None:
    """Capture the named recipe, or another one in its folder, into the new folder `output`."""
    recipe = recipe or RECIPES[name]
    packages = [word for package in recipe.packages for word in ("--package", package)]
    lab = [sys.executable, "-m", "tracekit", "lab", "capture", *DISKS, *packages]
    lab += ["--limit", recipe.limit, "--share", str(HERE / name), "--prepare", recipe.prepare]
    lab += ["--memory", f"{recipe.memory_mib}MiB"]
    lab += ["--compress", "xz", "-o", str(output), "--", *recipe.command]
    subprocess.run(lab, check=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=sorted(RECIPES))
    parser.add_argument("-o", "--output", type=Path, required=True, help="new folder")
    options = parser.parse_args()
    make(options.recipe, options.output)


if __name__ == "__main__":
    main()
