"""What a profile may say, and the error for what it may not."""

from pathlib import Path

import pytest

from tests.generate.profiles import ARRIVAL, HEAD, READS, profile
from tracekit.errors import InputError, UsageError
from tracekit.workload.model import CHOICES, EXPONENTIAL, GAMMA, SHARES, Phase
from tracekit.workload.reader import find_definition, read_profile, shipped
from tracekit.workload.requests import resized

WHOLE = HEAD + ARRIVAL + READS
PUBLISHED = {
    # share in percent by operation and access, size in KiB; mean time between requests in ms
    "web-server": ({("read", 1): (65, 4), ("write", 1): (10, 4), ("read", 0): (20, 64),
                    ("write", 0): (5, 64)}, 100),
    "paging": ({("read", 0): (70, 64), ("write", 0): (30, 64)}, 2000),
    "log-structured": ({("read", 1): (20, 16), ("write", 1): (10, 16), ("read", 0): (30, 128),
                        ("write", 0): (40, 128)}, 2000),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_profiles_say_what_was_published(name: str) -> None:
    found = read_profile(find_definition(name))
    mix, mean_ms = PUBLISHED[name]
    (stream,) = found.streams
    assert (stream.arrival.gap.kind, stream.arrival.gap.scale) == (EXPONENTIAL, mean_ms * 1e6)
    assert {
        (one.operation, int(one.run is not None)): (round(100 * one.share), one.most_bytes >> 10)
        for one in stream.requests
    } == mix
    assert name in shipped()


EVERYTHING = """
name = "all"
target_size = "1GiB"
sector = "4KiB"
pace = "fast"
depth = 8
[[stream]]
role = "fs"
process = "reader"
size = "512MiB"
[stream.arrival]
process = "gamma"
mean = "2ms"
shape = 0.5
burst = { requests = 10, off = "constant", mean = "1s" }
[[stream.phase]]
name = "day"
duration = "12h"
rate = 2
[[stream.phase]]
duration = "12h"
rate = 0.5
[[stream.request]]
share = 0.5
operation = "read"
access = "random"
size = { values = ["4KiB", "64KiB"], weights = [3, 1] }
align = "4KiB"
locality = { kind = "hot", block = "1MiB", blocks = 0.1, requests = 0.9 }
[[stream.request]]
share = 0.5
operation = "write"
access = "sequential"
run = { distribution = "exponential", mean = 8 }
size = { distribution = "lognormal", mean = "16KiB", sigma = 0.5, least = "4KiB", most = "64KiB" }
flags = ["sync", "fua"]
reuse = { share = 0.5, distance = { shares = [0, 0.5, 1], values = [1, 10, 1000] } }
[[stream]]
start = "512MiB"
arrival = { process = "measured", shares = [0, 1], values_us = [1, 10], correlation = 0.3 }
request = [{ share = 1, operation = "flush" }]
"""


def test_a_profile_with_everything(tmp_path: Path) -> None:
    found = profile(tmp_path, EVERYTHING)
    reader, flusher = found.streams
    assert (found.pace, found.depth, found.sector_bytes) == ("fast", 8, 4096)
    assert (reader.role, reader.process, reader.size_bytes) == ("fs", "reader", 512 << 20)
    assert (flusher.start_bytes, flusher.size_bytes) == (512 << 20, 512 << 20)
    gap = reader.arrival.gap
    assert (gap.kind, gap.scale, gap.shape) == (GAMMA, 4e6, 0.5)
    assert reader.arrival.phases == (Phase(43_200 * 10**9, 2.0), Phase(43_200 * 10**9, 0.5))
    first, second = reader.requests
    assert (first.size.kind, first.size.up_to) == (CHOICES, (0.75, 1.0))
    assert (first.locality.kind, first.locality.blocks_to) == (SHARES, (0.1, 1.0))
    assert (second.flags, second.locality.reuse_ratio) == (("sync", "fua"), 0.5)
    assert flusher.arrival.correlation == 0.3


WRONG = {
    "share": (("share = 1", "share = 0.9"), "only [[request]] is 0.9, not 1", "0.1 is missing"),
    "shares": ((READS, READS + READS.replace("= 1", "= 0.2")), "are 1 + 0.2 = 1.2, not 1",
               "0.2 is too much"),
    "unknown key": (("share = 1", "share = 1\nalighn = 3"), "unknown key 'alighn'", "'align'"),
    "unknown top key": (("name =", "nam ="), "unknown key 'nam'", "'name'"),
    "no sector": (('"4KiB"', '"1000"'), "'1000' is 1,000 bytes, no multiple", "round it"),
    "direct": (('"64MiB"\n', '"64MiB"\nsector = "8KiB"\n'), "no multiple of the sector of 8192",
               "direct = false"),
    "operation": (('"read"', '"raed"'), "'raed' is none of them", "did you mean read?"),
    "no mean": (('mean = "1ms"\n', ""), "the key 'mean' is missing", "add mean"),
    "mean without unit": (('"1ms"', "3"), "3 is no time", "with its unit"),
    "no arrival": ((ARRIVAL, ""), "the key 'arrival' is missing", "add arrival"),
    "no request": ((READS, ""), "there is no request", "add [[request]]"),
    "share above 1": (("share = 1", "share = 2"), "is no number from 0 to 1", ""),
    "share no number": (("share = 1", 'share = "all"'), "'all' is no number", ""),
    "share not a number": (("share = 1", "share = nan"), "nan is no number", ""),
    "target too small": (('"64MiB"', '"2KiB"'), "above 2,048 bytes", ""),
    "size above a transfer": (('"4KiB"', '"128MiB"'), "above 67,108,864 bytes", ""),
    "run of random": (('"random"', '"random"\nrun = 3'), "is for sequential access", "leave run"),
    "reuse without run": (('"random"', '"sequential"\nreuse = { share = 1, distance = 1 }'),
                          "is for runs", ""),
    "begins of random": (('"random"', '"random"\nbegins = "on"'), "for following access", ""),
    "no begins": (('"random"', '"following"\npages = "new"'), "'begins' is missing", "add begins"),
    "no pages": (('"random"', '"following"\nbegins = "on"'), "'pages' is missing", "add pages"),
    "no distance": (('"random"', '"following"\nbegins = "on"\npages = "used"'),
                    "'distance' is missing", "add distance"),
    "distance of new": (('"random"', '"following"\nbegins = "on"\npages = "new"\ndistance = 1'),
                        "is for pages = 'used'", "leave distance"),
    "reuse of following": (('"random"', '"following"\nbegins = "on"\npages = "new"\n'
                            "reuse = { share = 1, distance = 1 }"), "not for following", ""),
    "then": (("share = 1", "share = 1\nthen = [1, 2]"), "2 numbers for 1 kinds", ""),
    "then in parts": (("share = 1", "share = 1\nthen = [0.5]"), "not whole", "how often"),
    "then nothing": (("share = 1", "share = 1\nthen = [0]"), "are all 0", ""),
    "circle of random": (('"random"', '"random"\ncircle = { start = 0, size = "1MiB" }'),
                         "is for circular access", "leave circle"),
    "circle too small": (('"random"', '"circular"\ncircle = { start = 0, size = "2KiB" }'),
                         "below the largest request", ""),
    "circle too far": (('"random"', '"circular"\ncircle = { start = "63MiB", size = "2MiB" }'),
                       "passes the end", ""),
    "reuse of a circle": (('"random"', '"circular"\nreuse = { share = 1, distance = 1 }'),
                          "not for circular", "leave reuse"),
    "weights": (('"4KiB"', '{ values = ["4KiB"], weights = [1, 2] }'), "2 weights for 1", ""),
    "weights zero": (('"4KiB"', '{ values = ["4KiB"], weights = [0] }'), "are all 0", ""),
    "least": (('"4KiB"', '{ distribution = "gamma", mean = "4KiB", shape = 1, least = "8KiB",'
               ' most = "4KiB" }'), "is above the largest size", ""),
    "gamma correlated": (('"exponential"', '"gamma"\nshape = 1\ncorrelation = 0.5'),
                         "cannot go with gamma", "weibull"),
    "phase": (("[arrival]", '[[phase]]\nduration = "1s"\nrate = 0\n[arrival]'),
              "no request comes in any", "rate above 0"),
    "rates": (("[arrival]", '[[phase]]\nduration = "2ns"\nrate = [1, 2, 3]\n[arrival]'),
              "more rates than the duration", ""),
    "uses of new": (('"random"', '"following"\nbegins = "elsewhere"\npages = "new"\nuses = [[1]]'),
                    "is for pages = 'used'", "leave uses"),
    "uses goes on": (('"random"', '"following"\nbegins = "on"\npages = "used"\ndistance = 1\n'
                      "uses = [[1]]"), "is for begins = 'elsewhere' or 'again'", "leave uses"),
    "uses below 0": (('"random"', '"following"\nbegins = "elsewhere"\npages = "used"\ndistance = 1'
                      "\nuses = [[-1]]"), "-1, no number", ""),
    "measured falls": (('process = "exponential"', 'process = "measured"\nshares = [0, 1]\n'
                        "values_us = [3, 1]"), "falls somewhere", "sort"),
    "locality": (('"random"', '"random"\nlocality = { kind = "zipf", block = "4KiB" }'),
                 "the key 'exponent' is missing", ""),
    "locality of another kind": (('"random"', '"random"\nlocality = { kind = "zipf", exponent = 1,'
                                  " blocks = 1 }"), "unknown key 'blocks'", ""),
    "block": (('"random"', '"random"\nlocality = { kind = "zipf", exponent = 1, block = "6KiB" }'),
              "no multiple of align", ""),
    "target": (('"64MiB"', '"1000"'), "no multiple of the sector", ""),
    "toml": (("share = 1", "share = "), "is not valid TOML", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_what_to_do(tmp_path: Path, case: str) -> None:
    (old, new), says, hint = WRONG[case]
    assert old in WHOLE
    with pytest.raises(InputError) as caught:
        profile(tmp_path, WHOLE.replace(old, new, 1))
    assert str(tmp_path / "own.toml") in str(caught.value)
    assert says in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no profile 'web-sever'") as caught:
        find_definition("web-sever")
    assert "did you mean web-server?" in (caught.value.hint or "")
    with pytest.raises(InputError, match="there is no such file"):
        read_profile(tmp_path / "none.toml")


def test_another_target_keeps_the_proportions(tmp_path: Path) -> None:
    text = """
target_size = "64MiB"
[[stream]]
size = "16MiB"
arrival = { process = "constant", mean = "1s" }
request = [{ share = 1, operation = "read", access = "random", size = "1MiB" }]
[[stream]]
start = "16MiB"
arrival = { process = "constant", mean = "1s" }
request = [{ share = 1, operation = "read", access = "random", size = "1MiB" }]
"""
    larger = resized(profile(tmp_path, text), 256 << 20)
    assert [(one.start_bytes >> 20, one.size_bytes >> 20) for one in larger.streams] == [
        (0, 64),
        (64, 192),
    ]
    with pytest.raises(UsageError, match="0 B are for requests of up to 1 MiB"):
        resized(larger, 3 << 20)
