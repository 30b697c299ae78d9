"""The benchmarks' common parts, and that each benchmark can be called."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import BENCHES, function_of
from tests.bench.harness import Bench, Failed, Skipped, isolated, needs, run
from tests.bench.mutation import PythonFile
from tests.house.tree import ROOT


@pytest.mark.parametrize("name", BENCHES)
def test_small_sizes_are_options_of_the_benchmark(name: str) -> None:
    options = list(inspect.signature(function_of(name)).parameters.values())[1:]

    assert set(BENCHES[name]) <= {option.name for option in options}
    assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options)


@pytest.mark.plain
def test_a_process_and_a_call_are_measured() -> None:
    # GIVEN a process that takes 64 MiB, and one that fails
    used = run([sys.executable, "-c", "print(len(bytearray(1 << 26)))"])
    value, called = isolated(abs, -3)

    # THEN output, time and memory are its own
    assert used.output == f"{1 << 26}\n"
    assert 64 < used.peak_mib < 100
    assert used.cpu_s > 0 < called.peak_mib
    assert value == 3
    with pytest.raises(Failed, match="no such place"):
        run([sys.executable, "-c", "import sys; sys.exit('no such place')"])


def test_rounds_are_paired_and_each_begins_with_another(tmp_path: Path) -> None:
    # GIVEN two ways, of which the second is always twice as much as the first
    order: list[str] = []
    figures = {"a": iter([1.0, 2.0, 6.0]), "b": iter([2.0, 4.0, 12.0])}

    def way(name: str) -> float:
        order.append(name)
        return next(figures[name])

    # WHEN they are compared
    bench = Bench("two", tmp_path)
    ways = {"a": lambda: way("a"), "b": lambda: way("b")}
    found = bench.compare("case", ways, rounds=3, unit="ns")
    with bench.part("peer"):
        needs("no-such-program", "its-package")
    bench.save({"rounds": 3})

    # THEN medians, spread and ratios are in the table, and what is missing is noted
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [1, 2, 6], "b": [2, 4, 12]}
    saved = json.loads((tmp_path / "two.json").read_text())
    assert [list(row.values()) for row in saved["rows"]] == [
        ["case: a", 2, 1, 6, 1, 1, 1],
        ["case: b", 4, 2, 12, 2, 2, 2],
    ]
    (note,) = saved["notes"]
    assert note == "peer: not measured: no-such-program is not installed (Debian: its-package)"


def test_an_input_is_made_once(tmp_path: Path) -> None:
    # GIVEN an input whose making failed, and then succeeded
    bench = Bench("one", tmp_path)

    def fail(path: Path) -> None:
        path.write_text("half")
        raise Skipped("interrupted")

    with bench.part("input"):
        bench.input("a", fail)

    # THEN it is whole, and not made again
    assert bench.input("a", lambda path: path.write_text("whole")).read_text() == "whole"
    assert bench.input("a", fail).read_text() == "whole"


def test_a_mutant_is_seen_in_a_copy_and_never_in_the_checkout(tmp_path: Path) -> None:
    # GIVEN a file of the checkout
    source = Path("tracekit/units.py")
    text = (ROOT / source).read_text()
    file = PythonFile(source, tmp_path / "copy")

    def seen() -> str:
        words = "import tests, tracekit.units as u; print(u.SECTOR_BYTES, tests.__path__[0])"
        line = [sys.executable, "-c", words]
        return subprocess.check_output(line, cwd=file.copy, env=file.environment, text=True)

    # WHEN a mutant of it is in place, THEN the copy's programs have it, the checkout has not
    assert file.place(f"{text}\nSECTOR_BYTES = 7\n")
    assert seen() == f"7 {file.copy / 'tests'}\n"
    assert (ROOT / source).read_text() == text
    file.put_back()
    assert seen().split()[0] == "512"
