"""Device profiles: what the built-in ones say, and what is wrong in a user's own."""

import tomllib
from pathlib import Path

import pytest

from tracekit.devices import BUILT_IN, choose_profile, load_profiles
from tracekit.errors import InputError, UsageError

GOOD = {
    "about": '"my device"',
    "read_latency_us": "100.0",
    "write_latency_us": "50",
    "read_mib_s": "400.0",
    "write_mib_s": "200.0",
    "flush_us": "10.0",
    "fua_us": "0",
    "price_per_gb": "6.0",
}
HEAD = {
    "rpm": "7200",
    "seek_track_us": "1000",
    "seek_average_us": "12000",
    "seek_full_us": "20000",
    "capacity_gb": "320",
}


def own_file(folder: Path, *without: str, **changes: str) -> Path:
    """Write a file with the profile [mine]: GOOD less the keys `without`, with `changes`."""
    keys = {key: value for key, value in {**GOOD, **changes}.items() if key not in without}
    file = folder / "own.toml"
    file.write_text("[mine]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()))
    return file


def test_the_devices_of_both_studies_are_built_in() -> None:
    # GIVEN the built-in profiles
    found = load_profiles()
    # THEN study B's 4 KiB latencies and prices are as published
    measured = {
        name: (found[name].read_latency_us, found[name].write_latency_us, found[name].price_per_gb)
        for name in ("ssd-pcm", "ssd-emlc", "hdd-15k", "network-storage")
    }
    assert measured == {
        "ssd-pcm": (6.7, 128.3, 24.0),
        "ssd-emlc": (108.0, 37.1, 6.0),
        "hdd-15k": (5000.0, 5000.0, 1.0),
        "network-storage": (919.0, 133.0, 1.0),
    }
    # AND the devices that issue and study name are all there
    assert list(found) == [
        "hdd-7200",
        "hdd-7200-seek",
        "hdd-15k",
        "ssd-sata",
        "ssd-nvme",
        "ssd-emlc",
        "ssd-pcm",
        "ssd-optane",
        "dax-pcm",
        "dram",
        "network-storage",
    ]


def test_dax_pcm_has_the_delays_of_study_a() -> None:
    # GIVEN DRAM and PCM on the memory bus
    found = load_profiles()
    pcm, dram = found["dax-pcm"], found["dram"]
    # THEN PCM reads take 2 to 5 times and writes 8 to 50 times as long as DRAM's
    assert 2 <= dram.read_mib_s / pcm.read_mib_s <= 5
    assert 8 <= dram.write_mib_s / pcm.write_mib_s <= 50


def test_a_latency_contains_the_transfer_of_4_kib(tmp_path: Path) -> None:
    # GIVEN a device of 100 us and 400 MiB/s, which moves 4 KiB in 4096 / 419.4304 us
    profile = load_profiles(own_file(tmp_path))["mine"]
    # THEN its fixed cost is the rest
    assert profile.read_setup_us == pytest.approx(100 - 9.765625)
    assert profile.write_setup_us == pytest.approx(50 - 19.53125)
    assert profile.sequential_setup_us is None


def test_an_own_profile_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    # GIVEN a file that redefines dram
    file = tmp_path / "own.toml"
    file.write_text(own_file(tmp_path).read_text().replace("[mine]", "[dram]"))
    # WHEN it is loaded, THEN dram is the user's and the others are still there
    found = load_profiles(file)
    assert found["dram"].read_latency_us == 100.0
    assert found["ssd-pcm"].read_latency_us == 6.7


@pytest.mark.parametrize(
    ("without", "changes", "words"),
    [
        ("", {"read_latency": "1"}, r"profile \[mine\]: unknown key 'read_latency'"),
        ("flush_us", {}, r"profile \[mine\] has no key 'flush_us'"),
        ("", {"flush_us": "-1.5"}, r"\[mine\], key 'flush_us': -1.5 is not a number from 0 up"),
        ("", {"fua_us": "nan"}, r"\[mine\], key 'fua_us': nan is not"),
        ("", {"fua_us": "inf"}, r"\[mine\], key 'fua_us': inf is not"),
        ("", {"read_mib_s": '"fast"'}, r"\[mine\], key 'read_mib_s': 'fast' is not a number"),
        ("", {"read_mib_s": "true"}, r"\[mine\], key 'read_mib_s': True is not a number"),
        ("", {"read_mib_s": "0"}, r"\[mine\], key 'read_mib_s': 0 MiB/s is not between"),
        ("", {"write_latency_us": "1e9"}, r"key 'write_latency_us': 1000000000.0 us is more than"),
        ("", {"price_per_gb": "0"}, r"\[mine\], key 'price_per_gb': a price of 0"),
        ("", {"about": "3"}, r"\[mine\], key 'about': 3 is not text"),
        ("", {"read_mib_s": "10"}, r"\[mine\]: read_latency_us 100.0 is shorter than moving"),
        ("", {"sequential_setup_us": "95"}, r"sequential_setup_us 95.0 is more than a random"),
        ("", {"parallelism": "1.5"}, r"'parallelism': 1.5 is not a whole number from 1 to 256"),
        ("", {"parallelism": "0"}, r"'parallelism': 0 is not a whole number"),
        ("", {"rpm": "7200"}, r"has no key 'seek_track_us' of a disk whose head moves"),
        ("", {"write_settle_us": "1"}, r"has no key 'rpm' of a disk whose head moves"),
        ("", {**HEAD, "rpm": "0"}, r"key 'rpm': 0 is not between 1 and 1000000"),
        ("", {**HEAD, "capacity_gb": "0"}, r"key 'capacity_gb': 0 GB is not between"),
        ("", {**HEAD, "parallelism": "2"}, r"a disk with one head has no parallelism above 1"),
        ("", {**HEAD, "seek_full_us": "9000"}, r"seeks of 1000.0 us track to track, 12000.0 us on"),
        ("", {**HEAD, "seek_average_us": "900"}, r"are not those of a curve that only rises"),
    ],
)
def test_what_is_wrong_is_named(
    without: str, changes: dict[str, str], words: str, tmp_path: Path
) -> None:
    # GIVEN a profile with one fault, WHEN it is loaded
    file = own_file(tmp_path, without, **changes)
    with pytest.raises(InputError, match=words) as caught:
        load_profiles(file)
    # THEN the message names the file too
    assert str(file) in str(caught.value)


def test_a_misspelt_key_gets_a_proposal(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_profiles(own_file(tmp_path, flsh_us="1"))
    assert caught.value.hint == "did you mean flush_us?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no profile"),
        ("[mine\n", "is not valid TOML"),
        ("read_mib_s = 5\n", "'read_mib_s = 5' is outside of any profile"),
    ],
)
def test_files_without_profiles(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        load_profiles(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read: No such file"):
        load_profiles(tmp_path / "none.toml")


def test_an_unknown_profile_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no device profile 'ssd-pmc'") as caught:
        choose_profile(load_profiles(own_file(tmp_path)), "ssd-pmc")
    assert caught.value.hint.startswith("did you mean ssd-pcm? there are: hdd-7200, hdd-7200-seek,")
    assert caught.value.hint.endswith(", dram, network-storage, mine")


def test_every_built_in_profile_has_a_commented_source() -> None:
    # GIVEN the text of each built-in table
    text = BUILT_IN.read_text()
    for name in tomllib.loads(text):
        table = text.partition(f"[{name}]\n")[2].partition("\n[")[0]
        # THEN it says where its values come from
        assert "# " in table, name
