"""What a format does not say is null, and what needs it asks for it."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests import parsed as traces
from tests.command_line import invoke, succeed
from tests.import_.examples import oracle
from tests.import_.importer import Importer
from tracekit.errors import InputError, UsageError
from tracekit.store import TraceFolder

ARC = "".join(f"{n * 7 % 1000} {n % 8 + 1} 0 {n}\n" for n in range(300))
GIVEN = ("--rate", "500", "--op", "write", "--page", "512B")
COLUMNS = "time,op,offset,length"
UNKNOWN = ["times", "operations", "page size"]
NEEDING: list[tuple[tuple[str, ...], list[str]]] = [
    (("recommend",), UNKNOWN),
    (("simulate", "tiers"), UNKNOWN),
    (("replay", "--dry-run"), UNKNOWN),
    (("replay", "--dry-run", "--pace", "fast"), UNKNOWN[1:]),
    (("export", "--format", "blkparse", "-o", "OUT"), UNKNOWN),
    (("export", "--format", "fio", "-o", "OUT"), UNKNOWN),
    (("export", "--format", "msr", "-o", "OUT"), UNKNOWN),
    (("fit", "-o", "OUT"), UNKNOWN),
]


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace of a format without times, operations and the size of its pages."""
    folder = tmp_path_factory.mktemp("arc")
    (folder / "x.lis").write_text(ARC)
    done = succeed("import", folder / "x.lis", "-o", folder / "trace")
    assert "300 requests of trace without times (arc)" in done.stdout
    assert "not known             300" in done.stdout
    succeed("classify", folder / "trace")
    return folder / "trace"


def test_what_a_format_lacks_is_null(lacking: Path) -> None:
    table = pq.read_table(lacking / "requests.parquet")
    for name in ("queue_ns", "operation", "pid", "process"):
        assert table[name].null_count == 300, name
    info = TraceFolder(lacking).info
    assert info.unknown == UNKNOWN
    said = {one.code: one for one in info.warnings}["unknown_values"]
    assert "does not say times, operations, page size" in said.message
    assert all(option in said.advice for option in ("--rate", "--op", "--page"))


@pytest.mark.parametrize(("words", "needed"), NEEDING, ids=lambda value: " ".join(value[:3]))
def test_what_needs_it_asks_for_it(
    lacking: Path, tmp_path: Path, words: tuple[str, ...], needed: list[str]
) -> None:
    options = [str(tmp_path / "out") if word == "OUT" else word for word in words[1:]]
    at = 1 if words[0] == "simulate" else 0
    done = invoke(words[0], *options[:at], lacking, *options[at:])
    error = done.exception
    assert isinstance(error, InputError)
    assert f"needs {', '.join(needed)}, which the format of this trace, arc," in str(error)
    ways = {"times": "--rate", "operations": "--op", "page size": "--page"}
    assert all((ways[name] in str(error.hint)) == (name in needed) for name in UNKNOWN)
    assert not any(tmp_path.iterdir())


def test_locality_and_caches_go_on_without(lacking: Path, tmp_path: Path) -> None:
    # GIVEN 300 accesses of 1 to 8 pages, WHEN they are analysed, THEN each is counted
    done = succeed("analyze", lacking)
    pages = sum(n % 8 + 1 for n in range(300))
    assert f"{pages / 256:.1f} MiB of requests whose operation is not known" in done.stdout
    assert "warning: checks" not in done.stderr
    streams = pq.read_table(lacking / "findings/sequentiality.parquet").to_pylist()
    assert {row["operation"] for row in streams} == {"unknown"}
    # AND a cache's first line says on what it rests
    lines = succeed("simulate", "cache", lacking).stdout.splitlines()
    assert lines[0].startswith("The format, arc, does not say times, operations, page size")
    assert f"of the {pages:,} page references" in lines[1]
    # AND a trace that is given away keeps what is not known
    succeed("anonymize", lacking, "-o", tmp_path / "other")
    other = TraceFolder(tmp_path / "other")
    assert other.info.unknown == UNKNOWN
    assert pq.read_table(other.table("requests"))["pid"].null_count == 300
    # AND a cache simulator's format, which has none of it, holds every request
    done = succeed("export", lacking, "--format", "oracleGeneral", "-o", tmp_path / "x.oracle")
    assert "300 of 300 requests written" in done.stdout
    assert " 300 of pages whose size the trace does not say: 4,096 bytes are assumed" in done.stdout
    succeed("report", lacking, "-o", tmp_path / "x.html")
    assert "does not say times, operations" in (tmp_path / "x.html").read_text()


def test_what_the_user_gives_is_an_assumption_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.lis").write_text(ARC)
    trace = tmp_path / "trace"
    succeed("import", tmp_path / "x.lis", "-o", trace, *GIVEN)
    rows = traces.rows(TraceFolder(trace))
    assert rows[:3] == [
        (0, None, "trace", 0, 512, "write"),
        (2_000_000, None, "trace", 7, 1024, "write"),
        (4_000_000, None, "trace", 14, 1536, "write"),
    ]
    info = TraceFolder(trace).info
    assert not info.unknown
    assumed = "500 requests a second (--rate), write as the operation of all requests (--op)"
    assert assumed in traces.warnings(TraceFolder(trace))["assumed_values"]
    # AND an answer says so in its first lines
    succeed("classify", trace)
    shown = succeed("recommend", trace, "--nvm", "ssd-optane").stdout
    first, _, behind = " ".join(shown.split()).partition(assumed)
    assert first.count(" caution ") == 1
    assert "throughput" in behind or "block by block" in behind


def test_whole_seconds_are_told(read: Importer) -> None:
    accesses = [(5 + n // 50, 8 * n, 4096, -1) for n in range(500)]
    made = read(oracle(accesses))
    assert made.info.unknown == ["operations"]
    assert "whole seconds: 500 requests share 10" in traces.warnings(made)["coarse_times"]
    text = "".join(f"{1538323200 + n // 50},{n * 8},8,0,1063\n" for n in range(500))
    assert "coarse_times" in traces.warnings(read(text))
    apart = "".join(f"{1538323200 + n},{n * 8},8,0,1063\n" for n in range(500))
    assert "coarse_times" not in traces.warnings(read(apart))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": 0.0}, "--rate 0 is no rate"),
        ({"page_bytes": 1000}, "--page 1000: not a multiple of 512"),
        ({"page_bytes": 1 << 31}, "up to 1 GiB"),
        ({"operations": ("get",)}, "--op get: not a word and what it means"),
        ({"operations": ("read", "get=write")}, "--op read is of all requests, and another"),
    ],
)
def test_what_cannot_be_given(read: Importer, given: dict[str, Any], message: str) -> None:
    read.rejects(ARC, message, error=UsageError, form="arc", **given)


def test_what_a_format_says_itself_is_not_given(read: Importer) -> None:
    text = "".join(f"{1538323200 + n},{n * 8},8,0,1063\n" for n in range(50))
    refused: dict[str, dict[str, Any]] = {
        "times": {"rate": 5.0},
        "page size": {"page_bytes": 512},
        "operations": {"operations": ("read",)},
    }
    for what, given in refused.items():
        read.rejects(text, f"tencent says its {what} itself", error=UsageError, **given)


def test_options_that_change_nothing_are_told(read: Importer) -> None:
    # GIVEN reads and writes of Alibaba's, which have no response times
    text = "".join(f"7,{'RW'[n % 2]},{n * 512},512,{1577808144360767 + n}\n" for n in range(60))
    given: dict[str, Any] = {"operations": ("nix=read", "r=read"), "units": ("response=us",)}
    said = traces.warnings(read(text, **given))["unused_options"]
    assert said == (
        "--op nix=read: the word does not occur; those that do are r (30), w (30);"
        " --unit response: the format has no response"
    )
    used: dict[str, Any] = {"operations": ("r=write",), "units": ("time=us",)}
    assert "unused_options" not in traces.warnings(read(text, **used))


@pytest.mark.parametrize(("rate", "near"), [(10, "ms"), (1e6, "s")])
def test_a_unit_of_time_that_nobody_says_is_told(read: Importer, rate: float, near: str) -> None:
    # GIVEN lines whose times may be seconds or milliseconds by their rate
    text = "".join(f"{n / rate:.9f},r,{n * 977 % 5000 * 4096},4096\n" for n in range(200))
    said = traces.warnings(read(text, columns=COLUMNS, forces_units=True)).get("doubtful_units", "")
    # THEN it is told where both are likely, and what the trace would last then
    assert ("the trace lasts 19.9 s, and could last 0.0199 s (--unit time=ms)" in said) == (
        near == "ms"
    )
    # AND not where the user says it
    made = read(text, columns=COLUMNS, forces_units=True, units=("time=s",))
    assert "which nobody says" not in traces.warnings(made).get("doubtful_units", "")


def test_a_log_of_fio_without_waits_has_no_times(read: Importer) -> None:
    # GIVEN a log of version 2 whose requests came without a wait
    head = "fio version 2 iolog\nf add\nf open\n"
    lines = "".join(f"f {('read', 'write')[n % 2]} {n * 4096} 4096\n" for n in range(300))
    made = read(head + lines)
    assert made.info.unknown == ["times"]
    assert traces.requests(made)["queue_ns"].null_count == 300
    timed = traces.requests(read(head + lines, rate=1000))["queue_ns"].to_pylist()
    assert timed == [n * 1_000_000 for n in range(300)]
    # AND one whose first wait comes late is refused, and not of one moment up to there
    late = head + lines * 20 + "f wait 20 0\n" + lines
    read.rejects(late, "waits begin behind its first 64 KiB", hint="first wait on")
