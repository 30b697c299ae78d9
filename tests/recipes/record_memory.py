"""Record the memory accesses of zip and unzip, two loads of the study of persistent memory.

`python -m tests.recipes.record_memory -o sample-traces/memory` runs each under valgrind's lackey
and keeps COUNT accesses from FIRST on, when the program is loaded and at work.
"""

import argparse
import lzma
import random
import subprocess
import tempfile
from itertools import islice
from pathlib import Path

FIRST, COUNT = 2_000_000, 850_000
TEXT_BYTES = 64 << 10
COMMANDS = {
    "zip": ("zip", "-q", "-X", "again.zip", "text"),
    "unzip": ("unzip", "-q", "-o", "text.zip", "-d", "out"),
}


def record(name: str, output: Path, *, first: int = FIRST, count: int = COUNT) -> None:
    """Write the accesses from `first` on of the program into output/NAME.lackey.xz."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tracekit-memory-") as work:
        (Path(work) / "text").write_text(some_text())
        subprocess.run(["zip", "-q", "-X", "text.zip", "text"], cwd=work, check=True)
        lackey = ("valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=1")
        with subprocess.Popen([*lackey, *COMMANDS[name]], cwd=work, stdout=subprocess.PIPE) as run:
            assert run.stdout
            accesses = (line for line in run.stdout if not line.startswith(b"=="))
            with lzma.open(output / f"{name}.lackey.xz", "wb", preset=9) as packed:
                packed.writelines(islice(accesses, first, first + count))
            for _ in accesses:  # so that the program ends by itself
                pass
    if run.returncode:
        raise RuntimeError(f"{name} ended with {run.returncode}")


def some_text() -> str:
    """Return the same text each time: lines of words, some of them much more frequent."""
    chance = random.Random(1)  # noqa: S311 - a text is no secret
    letters = "etaoinshrdlu"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(2000)]
    ranks = [1 / (rank + 1) for rank in range(len(words))]
    text = "\n".join(" ".join(chance.choices(words, ranks, k=10)) for _ in range(2000))
    return text[:TEXT_BYTES]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    output = parser.parse_args().output
    for name in COMMANDS:
        record(name, output)


if __name__ == "__main__":
    main()
