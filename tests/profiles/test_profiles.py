"""`tracekit profiles`: what is built in, listed, shown and compared; new keys of a profile."""

import json
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tracekit.devices import BUILT_IN, ENDURANCE, PRICE, load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.toml_files import lines_of

OWN = """
[mine]
read_latency_us = 20.0
write_latency_us = 40.0
read_mib_s = 2000.0
write_mib_s = 1000.0
flush_us = 10.0
fua_us = 0.0
price_per_gb = 2.0
"""
CELL = """
[[mine.distributions]]
operation = "read"
length_bytes = 4096
depth = 1
write_ratio = 0.3
requests = 1000
quantiles_us = [[0, 10], [1, 30]]
"""


def own(tmp_path: Path, more: str = "") -> Path:
    file = tmp_path / "own.toml"
    file.write_text(OWN + more)
    return file


@pytest.mark.parametrize(
    ("name", "values"),
    [
        # AnandTech's hands-on: 375 GB, 30 writes a day for 5 years; TBW = 30 x 365 x 5 x 0.375 TB
        ("optane-p4800x", {"dwpd": 30, "capacity_gb": 375, "rated_tbw": 20531.25}),
        ("optane-p5800x", {"dwpd": 100, "read_latency_us": 5, "power_loss_protection": True}),
        ("optane-pmem-100", {"rated_tbw": 360_000, "read_latency_us": 1.93}),
        ("optane-pmem-200", {"rated_tbw": 497_000}),
        ("cxl-dram", {"power_loss_protection": False, "rated_tbw": None}),
        ("ssd-nvme-plp", {"power_loss_protection": True, "read_latency_us": 85}),
        ("ssd-nvme-consumer", {"power_loss_protection": False, "rated_tbw": 600}),
        ("ssd-nvme-qlc", {"dwpd": 0.2}),
        ("ssd-sata", {"rated_tbw": 600}),
        ("hdd-ncq", {"parallelism": 2}),
        # the studies' figures stay
        ("hdd-7200", {"read_latency_us": 12700.0, "flush_us": 8333.0, "price_per_gb": 1.0}),
        ("dax-pcm", {"read_latency_us": 2.34, "write_mib_s": 353.0}),
        ("ssd-optane", {"read_latency_us": 10.0, "write_mib_s": 1907.0}),
    ],
)
def test_what_is_built_in(name: str, values: dict[str, object]) -> None:
    (found,) = tk.profiles(name).summary["profiles"]
    assert {key: found.get(key) for key in values} == pytest.approx(values)


def test_what_bears_and_costs_has_a_source_and_a_date() -> None:
    for profile in load_profiles().values():
        if profile.price_usd_per_gb or profile.rated_cycles:
            assert profile.sources, profile.name
            assert profile.date, profile.name
        assert (profile.price_usd_per_gb is None) == (profile.price_date is None), profile.name


def test_what_decides_and_no_source_gives_is_marked() -> None:
    profiles = load_profiles().values()
    # GIVEN the figures of which no document was found that gives them
    assert {one.name for one in profiles if one.assumes(PRICE)} == {
        "ssd-nvme-plp", "ssd-nvme-consumer", "ssd-nvme-qlc", "optane-p5800x", "optane-pmem-200",
        "cxl-dram",
    }  # fmt: skip
    assert {one.name for one in profiles if one.assumes(ENDURANCE)} == {
        "ssd-pcm", "dax-pcm", "hdd-ncq", "optane-p5800x", "optane-pmem-200",
    }  # fmt: skip
    # THEN they are marked wherever a profile is shown
    (price,) = (
        line
        for line in succeed("profiles", "optane-p5800x").stdout.splitlines()
        if line.startswith("price_usd_per_gb")
    )
    assert price.split() == ["price_usd_per_gb", "2.7", "(assumed)"]
    compared = succeed("profiles", "optane-p4800x", "optane-p5800x").stdout
    assert "5 (assumed) (x0.562)" in compared
    # and so is what is worked out from them: the rating by a warranty that no source gives
    (rated,) = (
        line for line in succeed("profiles", "optane-p5800x").stdout.splitlines() if "TBW" in line
    )
    assert rated.split() == ["rated", "TBW", "146,000", "(assumed)"]
    *_, other, _, row, foot = (
        line for line in succeed("profiles").stdout.splitlines() if line[:3] in ("opt", "* a")
    )
    assert other.split()[8:11] == ["146,000*", "5*", "2.7*"]
    assert row.split()[9:11] == ["5*", "10.5*"]
    assert foot.startswith("* assumed: none of the profile's sources gives it")


def test_the_list_has_a_line_for_each(tmp_path: Path) -> None:
    listed = succeed("profiles", "--profiles", own(tmp_path)).stdout.splitlines()
    assert len(listed) == 1 + len(load_profiles()) + 2
    title = listed[0].split()
    assert title[0] == "profile"
    assert listed[-2].split() == ["mine", "20", "40", "2,000", "1,000", "1", "10", *"------"]


def test_one_is_shown_in_full_and_several_beside_each_other() -> None:
    shown = succeed("profiles", "optane-p4800x").stdout
    assert "source: AnandTech 11209, 2017-04: latency and IOPS measured" in shown
    (rated,) = (line for line in shown.splitlines() if line.startswith("rated TBW"))
    assert rated.split() == ["rated", "TBW", "20,531.2"]
    compared = succeed("profiles", "ssd-nvme-plp", "optane-p5800x").stdout.splitlines()
    assert compared[0].split() == ["ssd-nvme-plp", "optane-p5800x"]
    (read,) = (line for line in compared if line.startswith("read_latency_us"))
    assert read.split() == ["read_latency_us", "85", "5", "(assumed)", "(x0.0588)"]
    (loss,) = (line for line in compared if line.startswith("power_loss"))
    assert loss.split()[1:] == ["yes", "yes"]


def test_several_have_their_sources_beside_each_other(tmp_path: Path) -> None:
    words = ("profiles", "ssd-nvme-plp", "optane-p5800x", "mine", "--profiles", own(tmp_path))
    head, *lines = succeed(*words).stdout.splitlines()
    ends = [head.index(name) + len(name) for name in words[1:4]]
    begin = next(number for number, line in enumerate(lines) if line.startswith("sources"))
    # THEN each profile's column has all of its sources, in their order, or none
    for name, left, right in zip(words[1:4], [len("sources"), *ends], ends, strict=False):
        text = " ".join(line[left:right].strip() for line in lines[begin:])
        sources = load_profiles()[name].sources if name != "mine" else ("none",)
        assert text.split() == " ".join(sources).split()


def test_a_measured_profile_is_its_own_source(tmp_path: Path) -> None:
    more = OWN.replace("[mine]", '[seen]\nabout = "measured: /dev/vdb"') + CELL.replace(
        "mine", "seen"
    )
    shown = succeed("profiles", "mine", "seen", "--profiles", own(tmp_path, more)).stdout
    (sources,) = (line for line in shown.splitlines() if line.startswith("sources"))
    assert sources.split() == ["sources", "none", "measured:", "/dev/vdb"]


def test_json_has_every_figure_and_the_ratios(tmp_path: Path) -> None:
    arguments = ("profiles", "ssd-nvme", "mine", "--profiles", own(tmp_path, CELL), "--json")
    first, second = json.loads(succeed(*arguments).stdout)["profiles"]
    assert (first["name"], first["is_own"], "times_the_first" in first) == (
        "ssd-nvme",
        False,
        False,
    )
    assert (second["is_own"], second["times_the_first"]["write_latency_us"]) == (True, 2.0)
    assert second["distributions"][0]["quantiles_us"] == [[0, 10], [1, 30]]
    refused(invoke("profiles", "ssd-nvm"), "no device profile 'ssd-nvm'", error=UsageError)


@pytest.mark.parametrize(
    ("more", "line", "message"),
    [
        ("tbw = 100\n", 10, "tbw needs warranty_years"),
        ("tbw = 100\nwarranty_years = 5\n", 10, "tbw needs capacity_gb"),
        ("dwpd = 1\n", 10, "dwpd needs warranty_years"),
        (
            "dwpd = 1\ntbw = 9\nwarranty_years = 5\ncapacity_gb = 1\n",
            10,
            "tbw and dwpd state the same",
        ),
        ("dwpd = 0\nwarranty_years = 5\n", 10, "not between 0.0001 and 1e6"),
        ('price_date = "last year"\n', 10, "'last year' is not a date"),
        ("power_loss_protection = 1\n", 10, "1 is neither true nor false"),
        ("sources = [1]\n", 10, "1 is not text"),
        ('assumed = ["tbw"]\n', 10, "key 'assumed': unknown key 'tbw'"),
        ('assumed = ["flush"]\n', 10, "unknown key 'flush'; did you mean flush_us"),
        ("distributions = [1]\n", 10, "not up to 1024 tables"),
        (CELL + CELL, 11, "two have the same operation"),
        (CELL.replace("0.3", "1.0"), 11, "no 'read' among requests of which 1.0 are writes"),
        (
            CELL.replace("depth = 1", "depth = 0"),
            14,
            "depth: 0 is not a whole number from 1 to 1024",
        ),
        (CELL.replace("requests = 1000\n", ""), 11, "has no key 'requests'"),
        (CELL.replace("[1, 30]", "[1, 3]"), 17, "does not rise"),
        (CELL.replace("depth", "deep"), 14, "unknown key 'deep'; did you mean depth"),
    ],
)
def test_keys_that_cannot_be(tmp_path: Path, more: str, line: int, message: str) -> None:
    file = own(tmp_path, more)
    ran = invoke("profiles", "--profiles", file)
    refused(ran, message.split(";", maxsplit=1)[0], error=InputError)
    assert str(ran.exception).startswith(f"{file}, line {line}: profile [mine]")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("tbw = = 1", " is not valid TOML: line 10: Invalid value: 'tbw = = 1'"),
        ("flush_us = 3", " is not valid TOML: line 10: Cannot overwrite a value: 'flush_us = 3'"),
        ("[unit]\nread_us = 2", ", line 11: profile [unit]: unknown key 'read_us'"),
        ("[unit]\nabout = 'a'", ", line 10: profile [unit] has no key 'read_latency_us'"),
    ],
)
def test_the_line_is_named(tmp_path: Path, more: str, message: str) -> None:
    file = own(tmp_path, more)
    assert str(invoke("profiles", "--profiles", file).exception) == f"{file}{message}"


ODD = '''
top.a = 1 # [no]
"quoted key" = "[x]"
text = """
[not.a.table]
a = 1
"""
list = [
  [0, 1], # a
  ["]"],
  { b = 1, c = [{ d = 2 }] },
]
[[many]]
a = 1
[many.sub.deep]
a = 1
[[many]]
[[many.more]]
[[many.more]]
a.b = 2
  [ spaced . out ]
z = 1
'''


@pytest.mark.parametrize("text", [ODD, ODD.replace("\n", "\r\n"), BUILT_IN.read_text()])
def test_lines_are_where_each_key_comes_in(text: str) -> None:
    def has(content: Any, keys: Any) -> bool:
        for key in keys:
            is_there = key < len(content) if isinstance(content, list) else key in content
            if not is_there:
                return False
            content = content[key]
        return True

    rows, found = text.split("\n"), lines_of(text)
    for keys, line in found.items():
        # GIVEN the text before the line, and as many more lines as are TOML again
        ends = iter(range(line, len(rows) + 1))
        after = None
        while after is None:
            with suppress(tomllib.TOMLDecodeError):
                after = tomllib.loads("\n".join(rows[: next(ends)]) + "\n")
        # THEN the key comes in there
        assert has(after, keys), keys
        assert not has(tomllib.loads("\n".join(rows[: line - 1]) + "\n"), keys), keys
    assert len(found) > 20
