"""`tracekit simulate` on bad input: a status and a message, or an answer; and what-if files."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, refused, succeed
from tests.house.tree import ROOT
from tests.simulate.asking import DEVICE, NAMES, SMALL, ask, assert_finite, prepare, result_file
from tests.simulate.traces import DISK, FLASH, PCM, make_trace, tier_trace
from tests.traces import Row, json_of, rows_of, write_folder, written
from tracekit.commands import load
from tracekit.devices import load_profiles
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.model.tier_mixes import Tier
from tracekit.model.what_if import KEYS, WhatIf, choose_tiers, read_what_if
from tracekit.store import TraceFolder

# Nothing saves no time and wears nothing out, which are answers.
ANSWERS_NOTHING = {
    "sensitivity": "saves 0.0%",
    "endurance": "Nothing is written",
    "purchase": "Do not buy: none of",
    "rivals": "there is nothing to cache",
}


def few(path: Path, name: str) -> TraceFolder:
    """Make a trace of three requests, and what the command needs beside them."""
    folder = tier_trace(path, [(0, "read", 0, 4096), (1, "write", 1, 4096), (2, "write", 1, 8192)])
    assert prepare(name, folder) is None
    return folder


def has_answer(folder: TraceFolder, name: str) -> bool:
    return result_file(folder, name).exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "accesses",
    [
        pytest.param([(0, "read", 0, 4096)], id="one-read"),
        pytest.param([(0, "write", 0, 4096)], id="one-write"),
        pytest.param([(second, "write", 0, 4096) for second in range(9)], id="only-writes"),
    ],
)
def test_little_traffic_has_a_finite_answer(tmp_path: Path, name: str, accesses: list[Any]) -> None:
    # GIVEN so little that ratios have zeros in them, and one role only
    folder = tier_trace(tmp_path / "trace", accesses)
    error = prepare(name, folder)
    result = ask(name, folder)
    if result.exception is None:
        assert_finite(folder, name)
        return
    assert isinstance(result.exception, TracekitError), result.exception
    assert str(folder.path) in str(result.exception) or error is not None
    assert not has_answer(folder, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [[], [{"operation": "flush", "length_bytes": 0}]])
def test_no_traffic_is_an_error_or_saves_nothing(
    tmp_path: Path, name: str, rows: list[Row]
) -> None:
    folder = write_folder(tmp_path / "trace", rows)
    prepare(name, folder)
    result = ask(name, folder)
    if name in ANSWERS_NOTHING:
        assert ANSWERS_NOTHING[name] in result.stdout
        assert_finite(folder, name)
        return
    refused(result, str(folder.path), error=InputError)
    assert not has_answer(folder, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_is_no_trace_is_an_error(tmp_path: Path, name: str) -> None:
    refused(invoke("simulate", name, tmp_path), str(tmp_path), error=InputError)


@pytest.mark.parametrize("name", ["tiers", "cache"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[hdd-15k]\nread_latensy_us = 5\n", "read_latensy_us"),
        (DEVICE + "price_per_gb = nan\n", "price_per_gb"),
        (DEVICE + "price_per_gb = -1\n", "price_per_gb"),
        ("[hdd-15k\n", "TOML"),
    ],
)
def test_a_wrong_profile_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    folder, file = few(tmp_path / "trace", name), tmp_path / "own.toml"
    file.write_text(text)
    refused(ask(name, folder, "--profiles", str(file)), str(file), message, error=InputError)


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("tiers", ["--capacity", "0"], "--capacity"),
        ("tiers", ["--capacity", "64KiB"], "holds 1 extents, the trace touches 2"),
        ("tiers", ["--tiers", "ssd-pcm,hdd-15k-misspelt"], "hdd-15k-misspelt"),
        ("tiers", ["--tiers", "ssd-pcm,ssd-flash,hdd-15k"], "no device profile 'ssd-flash'"),
        ("cache", ["--flash", "ssd-flash"], "no device profile 'ssd-flash'"),
        ("rivals", ["--placement", "1TiB"], "no answer for this capacity"),
        ("rivals", ["--placement", "nan"], "--placement nan: there is no such placement"),
        ("endurance", ["--device", "ssd-flash"], "no device profile 'ssd-flash'"),
        ("sensitivity", ["--placement", "1TiB"], "no answer for this capacity"),
        ("endurance", ["--placement", "1TiB"], "no answer for this capacity"),
    ],
)
def test_bad_options_have_status_2(
    tmp_path: Path, name: str, words: list[str], message: str
) -> None:
    folder = few(tmp_path / "trace", name)
    result = ask(name, folder, *words)
    refused(result, message)
    assert getattr(result.exception, "exit_code", None) == 2
    assert getattr(result.exception, "hint", "") or "--capacity" in words
    assert not has_answer(folder, name)


@pytest.mark.parametrize("name", ["sensitivity", "endurance", "rivals"])
def test_there_must_be_a_recommendation(tmp_path: Path, name: str) -> None:
    folder = few(tmp_path / "trace", name)
    (folder.path / "recommendation.json").unlink()
    refused(ask(name, folder), "has no recommendation yet", error=TracekitError)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tiers", ["--step", "50", "--dynamic", "--window", "1s", "--vary", "window_s=2"]),
        ("buffer", ["--sizes", "64B,128B"]),
    ],
)
def test_the_options_are_kept_with_the_answer(tmp_path: Path, name: str, words: list[str]) -> None:
    folder = tier_trace(tmp_path / "trace", [(0, "read", 0, 4096), (3, "write", 1, 4096)])
    assert prepare(name, folder) is None
    result = ask(name, folder, *words, "--json")
    assert result.exception is None
    kept = json_of(folder.path / "simulations" / f"{name}.json")
    first = ["--extent", "64KiB"] if name == "tiers" else []
    assert kept["asked"] == [*first, *words]
    assert json.loads(result.stdout) == kept


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("tiers", ["--tiers", "ssd-pcm,hdd-15k"], id="tiers-without-flash"),
        ("tiers", ["--capacity", "1TiB"]),
        ("cache", ["--sizes", "1TiB"]),
        ("buffer", ["--buffers", "1024"]),
        # for which there is a recommendation
        ("sensitivity", ["--placement", "1TiB"]),
        ("endurance", ["--placement", "1TiB"]),
        ("rivals", ["--placement", "1TiB"]),
    ],
)
def test_more_than_the_footprint_has_an_answer(tmp_path: Path, name: str, words: list[str]) -> None:
    folder = few(tmp_path / "trace", name)
    if "--placement" in words:
        succeed("recommend", folder.path, "--capacity", "1TiB")
    assert ask(name, folder, *words).exit_code == 0
    assert_finite(folder, name)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("tiers", "--profiles"),
        ("cache", "--profiles"),
        ("endurance", "--profiles"),
        ("tiers", "--what-if"),
        ("endurance", "--what-if"),
    ],
)
@pytest.mark.parametrize("is_zero", [True, False])
def test_a_bad_price_has_status_1(tmp_path: Path, name: str, option: str, *, is_zero: bool) -> None:
    # GIVEN a device with a price of zero, or one that has none
    folder, file = few(tmp_path / "trace", name), tmp_path / "own.toml"
    price = "price_per_gb = 0\n" if is_zero else ""
    latencies = "".join(DEVICE.splitlines(keepends=True)[1:3])
    file.write_text(
        (DEVICE if option == "--profiles" else f"[devices.hdd-15k]\n{latencies}") + price
    )
    result = ask(name, folder, option, str(file))
    why = "price of 0" if is_zero else "has no key"
    refused(result, str(file), "hdd-15k", "price_per_gb", why, error=InputError)
    assert getattr(result.exception, "exit_code", None) == 1
    assert not has_answer(folder, name)


def test_a_price_that_is_not_in_the_currency_is_reported(tmp_path: Path) -> None:
    folder, file = few(tmp_path / "trace", "endurance"), tmp_path / "what-if.toml"
    file.write_text('currency = "EUR"\n')
    result = ask("endurance", folder, "--what-if", str(file))
    assert result.exit_code == 0
    assert "in EUR is not known" in result.stdout
    assert_finite(folder, "endurance")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("block", "role"), [(0, "fs"), (1500, "journal")])
def test_tables_have_roles_of_the_trace(tmp_path: Path, name: str, block: int, role: str) -> None:
    requests = [(("read", "write")[at % 2], block + at % 5, 1) for at in range(20)]
    folder = make_trace(tmp_path / "trace", requests)
    assert prepare(name, folder) is None
    assert ask(name, folder).exit_code == 0
    assert_finite(folder, name)
    for file in (folder.path / "simulations").glob(f"{name}*.parquet"):
        if "role" in pq.read_schema(file).names:
            assert {row["role"] for row in rows_of(file)} - {"all", None} == {role}, file


def read(path: Path, text: str) -> WhatIf:
    file = written(path / "what-if.toml", text)
    return read_what_if(file, load_profiles())


def test_without_a_file_the_tiers_are_the_profiles() -> None:
    tiers = choose_tiers(["ssd-pcm", "ssd-emlc", "hdd-15k"], WhatIf(), own_profiles=None)
    assert tiers == [PCM, FLASH, DISK]


def test_a_file_changes_devices_prices_and_factors(tmp_path: Path) -> None:
    # GIVEN a faster PCM like the study's, a device of its own and other prices
    what_if = read(
        tmp_path,
        """
        tiers = ["fast-pcm", "mine", "hdd-15k"]
        factors = [0.1]
        [price_per_gb]
        hdd-15k = 0.5
        [devices.fast-pcm]
        like = "ssd-pcm"
        read_latency_us = 3.35
        [devices.mine]
        read_latency_us = 50
        write_latency_us = 60.0
        price_per_gb = 3
        """,
    )
    assert choose_tiers(what_if.tiers, what_if, own_profiles=None) == [
        Tier("fast-pcm", 3.35, 128.3, 24.0, 2662.0, 200.0),
        Tier("mine", 50.0, 60.0, 3.0),
        Tier("hdd-15k", 5000.0, 5000.0, 0.5, 155.0, 155.0),
    ]
    assert what_if.factors == (0.1,)


def test_prices_in_a_currency_must_all_be_given(tmp_path: Path) -> None:
    text = 'currency = "EUR"\n[price_per_gb]\nssd-pcm = 1.6\nssd-emlc = 0.4\n'
    with pytest.raises(InputError, match="price of 'hdd-15k' in EUR is missing"):
        choose_tiers(["ssd-pcm", "hdd-15k"], read(tmp_path, text), own_profiles=None)


def test_a_price_that_is_not_in_the_currency_is_not_taken_over(tmp_path: Path) -> None:
    # GIVEN a device like one whose price is relative, THEN that is no price in EUR
    text = 'currency = "EUR"\n[devices.mine]\nlike = "ssd-pcm"\n'
    with pytest.raises(InputError, match="price of 'mine' in EUR is missing"):
        read(tmp_path, text)
    priced = read(tmp_path, f"{text}[price_per_gb]\nmine = 2\n")
    assert choose_tiers(["mine"], priced, own_profiles=None)[0].price_per_gb == 2.0


def test_the_file_of_the_documentation_is_right(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "what-if.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    assert sorted(tomllib.loads(example)) == sorted(KEYS)
    what_if = read(tmp_path, example)
    tiers = choose_tiers(what_if.tiers, what_if, own_profiles=None)
    assert [tier.price_per_gb for tier in tiers] == [1.6, 0.40, 0.07]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prices = 1", "unknown key 'prices'"),
        ("[price_per_gb]\nssd-pmc = 1", r"\[price_per_gb\]: unknown key 'ssd-pmc'"),
        ("[price_per_gb]\nssd-pcm = 0", r"line 2: \[price_per_gb\], key 'ssd-pcm': a price of 0"),
        ("[price_per_gb]\nssd-pcm = -1", "-1 is not a number from 0 up"),
        ("[price_per_gb]\nssd-pcm = nan", "nan is not a number from 0 up"),
        ("price_per_gb = 1", "price_per_gb is 1, not a table"),
        ("[devices.x]\nread_latncy_us = 1", r"\[devices.x\]: unknown key 'read_latncy_us'"),
        ("[devices.x]\nread_latency_us = 1", "has no key 'write_latency_us'"),
        ('[devices.x]\nlike = "ssd-pmc"', "there is no device profile 'ssd-pmc'"),
        ('[devices.x]\nlike = "ssd-pcm"\nread_latency_us = 0', "0 would give endless IOPS"),
        ("[devices]\nx = 3", r"\[devices.x\] is 3, not a table"),
        ("nvram = 3", "nvram is 3, not a table"),
        ("[nvram]\nx = 3", r"\[nvram.x\] is 3, not a table"),
        ("[nvram.x]\nhit_sn = 3", r"\[nvram.x\]: unknown key 'hit_sn'"),
        ("[nvram.x]\nhit_ns = 0", r"line 2: \[nvram.x\]: hit_ns: 0.0 is not a time above 0"),
        ("[nvram.x]\nread_ns = -1", "read_ns: -1.0 is not a time from 0"),
        ("[nvram.x]\nread_ns = nan", "read_ns: nan is not a time from 0"),
        ("[nvram.x]\nread_ns = true", "read_ns: True is not a number"),
        ('[nvram."as asked"]\nread_ns = 1', "the options have this name"),
        ("tiers = 3", "tiers is 3, not a list of names"),
        ("factors = [0]", "factors: 0 is not a number from 0.001 to 1000"),
        ("factors = 2", "factors is 2, not a list"),
        ("currency = 5", "currency is 5, not a name"),
        ("[devices", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read(tmp_path, text)
    assert "what-if.toml" in str(error.value)


def test_a_misspelt_key_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, "[devices.x]\nread_latncy_us = 1")
    assert error.value.hint == "did you mean read_latency_us?"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TracekitError, match=r"gone\.toml: there is no such file"):
        read_what_if(tmp_path / "gone.toml", {})


def test_an_unknown_tier_is_named() -> None:
    with pytest.raises(UsageError, match="no device profile 'hdd'"):
        choose_tiers(["hdd"], WhatIf(), own_profiles=None)


PAGE = ROOT / "docs" / "what-if.md"
FILES = sorted((PAGE.parent / "what-ifs").glob("*.toml"))
COMMANDS = [
    shlex.split(line)[1:]
    for line in PAGE.read_text().splitlines()
    if line.startswith("tracekit simulate ")
]
# What the headline says only with the example.
SAID = {"tiers": "IOPS per EUR/GB", "endurance": "EUR.", "buffer": "slow: "}


def test_each_command_that_takes_a_what_if_has_an_example() -> None:
    takers = {
        name for name in NAMES if "what_if" in getattr(load(name, "simulate"), name).__annotations__
    }
    assert {words[1] for words in COMMANDS} == takers
    assert sorted(ROOT / words[-1] for words in COMMANDS) == FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_shown_as_it_is(file: Path) -> None:
    assert f"```toml\n{file.read_text()}```" in PAGE.read_text()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[1])
def test_the_command_of_an_example_answers_with_what_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    accesses = [(0, "read", 0, 4096), (1, "write", 1, 4096), (2, "write", 1, 8192)]
    folder, name = tier_trace(tmp_path / "trace", accesses), words[1]
    assert prepare(name, folder) is None
    monkeypatch.chdir(ROOT)
    asked = ["simulate", name, str(folder.path), *words[3:], *SMALL.get(name, []), "--json"]
    done = invoke(*asked)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert any(SAID[name] in line for line in answer["headline"])
    assert_finite(folder, name)
