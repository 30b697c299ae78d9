"""Texts of memory accesses: each format by hand, wrong lines, and which of them a file is."""

from typing import Any

import pytest

from tests.import_.importer import Importer
from tests.traces import rows_of
from tracekit.errors import UsageError
from tracekit.readers.memory import FORMATS

PERF = (
    "    zip 40/41 [000] 12.000000500:   1 cpu/mem-loads,ldlat=30/P:     7ffe10 "
    "     5080021 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK N/A  9  4006 f (zip)\n"
)
# Text; rows as (instruction, time_ns, address, size, operation); instructions; lines passed over.
Row = tuple[int | None, int | None, int, int | None, str]
TEXTS: dict[str, tuple[str, list[Row], int | None, int]] = {
    "lackey": (
        "==7== Lackey, an example Valgrind tool\n"
        "I  0401ab70,3\n S 1fff000658,8\nI  0401ab73,5\r\n L 10,4\n M ffffffffff600000,2\n==7== \n",
        [
            (0, None, 0x401AB70, 3, "fetch"),
            (0, None, 0x1FFF000658, 8, "store"),
            (1, None, 0x401AB73, 5, "fetch"),
            (1, None, 0x10, 4, "load"),
            (1, None, 0xFFFFFFFFFF600000, 2, "modify"),
        ],
        2,
        2,
    ),
    "perf-mem": (
        "# perf script\n"
        + PERF
        + "a name 3 13.5: cpu/mem-stores/P:  ffff88 5080144 |OP N/A|LVL N/A\n"
        + "x 3 13.5: mem-loads:ppp:  20\n"
        + "x 3 13.5: l1d_stores:  0\n"
        + "x 3 [001] 13.6:  1 cpu_core/MEM_UOPS_RETIRED.ALL_STORES/P:  ff81ff\n"
        + "\t        7fad7c47425d [unknown] (/usr/lib64/libc.so.6)\n"
        + "\t    ffffffffb5bd2fd0 do_it+0x10 ([kernel.kallsyms])\n\n",
        [
            (None, 0, 0x7FFE10, None, "load"),
            (None, 1_499_999_500, 0xFFFF88, None, "store"),
            (None, 1_499_999_500, 0x20, None, "load"),
            (None, 1_599_999_500, 0xFF81FF, None, "store"),
        ],
        None,
        4,
    ),
    "perf-mem-report": (
        "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n"
        "20134 20134 0xffffffffb5bd2fd0 0x016ffff9a274e96a308  1168 0x5080142 /a b/c:d\n"
        "  7,8,0x4006,0x7ffe10,0x44e96a308,4K,99,0x68100144,x:y\n"
        "  7 8 0x0000000000004006 0x0000000000000010 3 0x000001 x:y\n",
        [
            (None, None, 0xFFFF9A274E96A308, None, "load"),
            (None, None, 0x7FFE10, None, "store"),
        ],
        None,
        2,
    ),
    "gem5-packets": (
        "r,4096,64,0,5000\nw,8192,32,7,9999,4198400\nu,0,64,0,9999\n12,r,1,8,0,10000\nr,2,8,10500\n",
        [
            (None, 0, 4096, 64, "load"),
            (None, 4, 8192, 32, "store"),
            (None, 5, 1, 8, "load"),
            (None, 5, 2, 8, "load"),
        ],
        None,
        1,
    ),
    "gem5": (
        "  77000: system.mem_ctrls: Read from cpu.data of size 8 on address 0x1234 data 0xff C\n"
        "  78999: system.mem_ctrls: Write from cpu.data of size 64 on address 0xff00 C\n"
        "  78999: system.mem_ctrls: 00000000  00 01 02 03\n"
        "  79000: system.mem_ctrls: IFetch from cpu.inst of size 64 on address 0x40 C\n"
        "  79000: global: Read from .ruby.dir_cntrl0 of size 64 on address 0x3fc0 C\n"
        "  79000: system.mem_ctrls: Read/Write from cpu.data of size 8 on address 0 data 0x1 C\n"
        "  79000: global: Write from functional of size 64 on address 0x10f3bc0 C\n"
        "  80000: system.physmem: access write due to WriteReq [ff00:ff3f] D=0102\n"
        "  80000: system.physmem: Write of size 64 on address 0x80c40\n",
        [
            (None, 0, 0x1234, 8, "load"),
            (None, 1, 0xFF00, 64, "store"),
            (None, 2, 0x40, 64, "fetch"),
            (None, 2, 0x3FC0, 64, "load"),
            (None, 2, 0, 8, "modify"),
            (None, 3, 0x80C40, 64, "store"),
        ],
        None,
        3,
    ),
    "ramulator": (
        "0x12345680 R\n0x4cbd56c0 W\nLD 0x40\nST 128\n",
        [
            (None, None, 0x12345680, 64, "load"),
            (None, None, 0x4CBD56C0, 64, "store"),
            (None, None, 0x40, 64, "load"),
            (None, None, 128, 64, "store"),
        ],
        None,
        0,
    ),
    "ramulator-cpu": (
        "3 20734016\n1 20846400 20734016\n",
        [
            (3, None, 20734016, 64, "load"),
            (5, None, 20846400, 64, "load"),
            (5, None, 20734016, 64, "store"),
        ],
        6,
        0,
    ),
}
CHOSEN = ("ramulator-cpu",)  # whose numbers can be anything


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("is_chosen", [False, True])
def test_each_format_by_hand(read: Importer, name: str, is_chosen: bool) -> None:
    text, expected, instructions, passed = TEXTS[name]
    options: dict[str, Any] = {"form": name} if is_chosen or name in CHOSEN else {}
    folder = read(text, **options)
    found = [tuple(row.values()) for row in rows_of(folder.table("memory_accesses"))]
    assert found == expected
    content, form = folder.content, FORMATS[name]
    assert content["source"]["format"] == name
    assert content["counts"]["memory_accesses"] == len(expected)
    assert content["counts"]["passed_lines"] == passed
    assert content["counts"]["bad_lines"] == 0
    assert content["memory"] == {
        "is_sampled": name.startswith("perf"),
        "is_filtered": name.startswith("ramulator") or name == "gem5",
        "instructions": instructions,
    }
    assert content["clock"]["duration_ns"] == max((row[1] or 0) for row in expected)
    assert any(form.notes == one["evidence"] for one in content["inferences"])
    expected_codes = ["sampled_accesses"] * form.is_sampled
    expected_codes += ["other_commands"] * (name == "gem5-packets")
    assert [one["code"] for one in content["warnings"]] == expected_codes


def test_all_formats_have_an_example() -> None:
    assert set(TEXTS) == set(FORMATS)


def test_two_bare_numbers_are_of_no_known_format(read: Importer) -> None:
    read.rejects("3 20734016\n1 20846400\n", "no known format")


# A good line of each format, spoilt.
WRONG = {
    "lackey": ["I 04001a20", " X 10,4", "L 10,4", " I  10,4", " L 10,0", " L 11112222333344445,4"],
    "perf-mem": [
        " 7ffe10 f",
        "z (f)",
        "x 3 13.5: mem-loads:",
        "x 3 13: mem-loads: 20",
        "x 3 1.5: page-faults: 20",
    ],
    "perf-mem-report": ["7 8 0x1 12 3 0x142 x", "7 8 0x1 0x2 3 142 x", "7 x 0x1 0x2 3 0x142 x"],
    "gem5-packets": ["x,1,2,3,4", "r,1,2", "r,0x1,2,3,4", "r,1,0,3,4", "r,1,2,3,4,5,6"],
    "gem5": ["system: Read from x of size 8 on address 0x1 C", "1: a: Read from x of size 0 on a"],
    "ramulator": ["0x1 X", "R 0x1", "LD 0xg", "0x1 R 2"],
    "ramulator-cpu": ["1", "1 x", "1 2 3 4", "99999999999 1"],
}


@pytest.mark.parametrize(("name", "line"), [(name, line) for name in WRONG for line in WRONG[name]])
def test_wrong_lines_are_counted_shown_and_refused_beyond_one_in_a_hundred(
    read: Importer, name: str, line: str
) -> None:
    good = next(one for one in TEXTS[name][0].split("\n") if one and not one.startswith(("=", "#")))
    many = "".join(f"{good}\n" for _ in range(300))
    counts = read(f"{many}{line}\n{many}", form=name).content["counts"]
    assert counts["bad_lines"] == 1
    assert counts["bad_examples"] == [{"line": 301, "text": line}]
    few = "".join(f"{good}\n" for _ in range(20))
    message = read.rejects(f"{few}{line}\n", "1 of .* lines are wrong", form=name, hint="--max-bad")
    assert f"line 21: {line}" in message


def test_rows_and_lines_are_counted_on_over_blocks(
    read: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN blocks of few lines, in the last of which one is wrong and the last has no end
    monkeypatch.setattr("tracekit.readers.reading.CHUNK_BYTES", 1000)
    lines = [f"I  {at:x},4\n L {at:x},8\n" for at in range(1, 5001)]
    folder = read("".join(lines) + "wrong\n L 7,1")
    rows = rows_of(folder.table("memory_accesses"))
    assert [row["address"] for row in rows[::2]] == [*range(1, 5001), 7]
    assert [row["instruction"] for row in rows] == [*(at // 2 for at in range(10000)), 4999]
    assert folder.content["counts"]["bad_examples"] == [{"line": 10001, "text": "wrong"}]


def test_units_are_those_of_the_format(read: Importer) -> None:
    read.rejects(TEXTS["lackey"][0], "--unit", error=UsageError, units=("offset=bytes",))


def test_nothing_but_comments(read: Importer) -> None:
    read.rejects("==7== Lackey\n", "no memory access", form="lackey")
