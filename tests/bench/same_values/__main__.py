"""Runs two versions of tracekit and compares every table, JSON value, plan and text they make.

    python -m tests.bench.same_values --old OLD/.venv/bin --new NEW/.venv/bin --keep out/same-values

What is allowed to differ is in `renamed`. Both versions run the commands of `steps`, in the words
that each knows, one after the other on one processor. With --keep the old version's results are
used again as long as the steps are the same.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.same_values.compare import SHOWN, Class, compare
from tests.bench.same_values.inputs import read_rows, write_inputs
from tests.bench.same_values.side import Side, run_steps
from tests.bench.same_values.steps import SAMPLES, all_steps, read_section

DONE = "steps.txt"
INPUT_SAMPLE = "sysbench"


def main() -> int:
    """Return 0 if nothing differs but what may."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="same-values-") as scratch:
        place = Path(options.keep or scratch).resolve()
        place.mkdir(parents=True, exist_ok=True)
        wrong = _run_both(options, place)
        classes = compare(place / "old", place / "new")
        if options.old_folders:
            classes["folders of the old version"] = _open_old_folders(options, place)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of CPU in all")
    for text in wrong:
        print(text)
    return int(_print(classes) or bool(wrong))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--old", type=Path, required=True, help="folder of the old programs")
    parser.add_argument("--new", type=Path, required=True, help="folder of the new programs")
    parser.add_argument("--keep", type=Path, help="folder for all results")
    parser.add_argument("--only", help="run the steps that match this pattern, no others")
    parser.add_argument("--together", action="store_true", help="run both versions at once")
    parser.add_argument(
        "--old-folders",
        action="store_true",
        help="also open the old version's trace folders with the new one",
    )
    return parser.parse_args()


def _run_both(options: argparse.Namespace, place: Path) -> list[str]:
    """Run both versions; return what went wrong."""
    steps = [step for step in all_steps() if not options.only or re.search(options.only, step)]
    inputs = place / "inputs"
    old, new = (
        Side((options.new if is_new else options.old).resolve(), place / name, inputs, is_new)
        for name, is_new in (("old", False), ("new", True))
    )
    sides = [new]
    done = place / DONE
    text = "\n".join([str(old.programs), *steps])
    if not done.is_file() or done.read_text() != text:
        done.unlink(missing_ok=True)
        _make_inputs(old, place)
        sides.insert(0, old)
    with ThreadPoolExecutor(len(sides) if options.together else 1) as pool:
        wrong = [
            one for found in pool.map(lambda side: run_steps(side, steps), sides) for one in found
        ]
    done.write_text(text)
    return wrong


def _make_inputs(old: Side, place: Path) -> None:
    """Write the traces to import, from a sample as the old version reads it."""
    shutil.rmtree(old.inputs, ignore_errors=True)
    folder = place / "of-inputs"
    words = old.words(f"parse {{samples}}/{INPUT_SAMPLE} -o {folder} --force")
    subprocess.run([old.programs / "tracekit", *words], check=True, capture_output=True)
    write_inputs(read_rows(folder / "requests.parquet"), old.inputs)
    shutil.rmtree(folder)
    for thread in (100, 101):
        below = old.inputs / "below" / f"d{thread}"
        below.mkdir(parents=True)
        for number in range(9):
            (below / f"f{number}").write_bytes(b"x" * (1000 * number * thread))


def _print(classes: dict[str, Class]) -> bool:
    """Print a line for each class and each difference; return whether there are any."""
    for name, found in sorted(classes.items()):
        state = "equal" if not found.differences else f"{len(found.differences):,} DIFFERENCES"
        print(f"{name:<40} {found.files:>5,} files {found.values:>12,} values  {state}")
        by_file: dict[str, int] = {}
        for text in found.differences:
            file = text.partition(":")[0]
            by_file[file] = by_file.get(file, 0) + 1
            if by_file[file] <= SHOWN:
                print(f"    {text}")
        for file, count in by_file.items():
            if count > SHOWN:
                print(f"    {file}: and {count - SHOWN} more")
    return any(found.differences for found in classes.values())


def _open_old_folders(options: argparse.Namespace, place: Path) -> Class:
    """Open each folder of the old version with the new one: it works, or is refused by name."""
    found = Class()
    mixed = Side(options.new.resolve(), place / "mixed", place / "inputs", is_new=True)
    mixed.prepare()
    for name in (*SAMPLES, "i-msr", "i-octf"):
        if not (place / "old" / name).is_dir():
            continue
        shutil.copytree(place / "old" / name, mixed.folder / name)
        found.files += 1
        for number, step in enumerate(read_section("old-folders", name)):
            message = mixed.run(number, step)
            if message is None:
                found.values += 1
            elif name in message and "schema" in message:
                print(f"refused by name: {message.strip()}")
            else:
                found.differences.append(f"{name}: {step}: {message}")
    return found


if __name__ == "__main__":
    sys.exit(main())
