"""Make a sample trace: a fresh disk of three roles, a load on it, and a capture of that.

As root: `python -m tests.recipes.make_sample oltp -o sample-traces/oltp --scratch /var/tmp`.
Arguments after `--` go to the load. The disk is a file in --scratch, which should lie on a real
disk and not on a tmpfs.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.recipes.memory_limit import remove_group
from tests.recipes.three_roles import Sizes, mounted, three_role_disk

ROOT = Path(__file__).resolve().parents[2]
HERE = "tests/recipes"
GROUP = "tracekit-sample"


@dataclass(frozen=True)
class Recipe:
    """What a sample trace is made with."""

    sizes: Sizes
    memory_mib: int
    """Memory of the load, its page cache included."""
    arguments: tuple[str, ...]
    """Of the load's run."""


RECIPES = {"oltp": Recipe(Sizes(fs_mib=512, journal_mib=16, swap_mib=64), 96, ())}


def make(name: str, output: Path, *, scratch: Path, arguments: list[str]) -> None:
    """Capture the named recipe into the new folder `output`."""
    recipe = RECIPES[name]
    # Plain and relative names: the command is kept in the capture's layout.json.
    load = ("python3", f"{HERE}/{name}/load.py")
    limit = ("python3", f"{HERE}/memory_limit.py", GROUP, str(recipe.memory_mib))
    with tempfile.TemporaryDirectory(dir=scratch, prefix="tracekit-sample-") as work:
        folder = Path(work)
        with three_role_disk(folder / "disk.img", recipe.sizes) as device:
            with mounted(f"{device}p1", folder / "build") as point:
                _run(*load, "build", str(point))
            # A second mount starts with nothing cached.
            with mounted(f"{device}p1", folder / "run") as point:
                try:
                    _run(
                        *(sys.executable, "-m", "tracekit", "capture", device, "-o", str(output)),
                        *("--compress", "xz", "--"),
                        *limit,
                        *load,
                        *("run", str(point)),
                        *recipe.arguments,
                        *arguments,
                    )
                finally:
                    remove_group(GROUP)


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=sorted(RECIPES))
    parser.add_argument("-o", "--output", type=Path, required=True, help="new folder")
    parser.add_argument("--scratch", type=Path, required=True, help="folder for the disk's file")
    own, _, arguments = " ".join(sys.argv[1:]).partition(" -- ")
    options = parser.parse_args(own.split())
    make(
        options.recipe,
        options.output.absolute(),
        scratch=options.scratch,
        arguments=arguments.split(),
    )


if __name__ == "__main__":
    main()
