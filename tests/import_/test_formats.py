"""The list of formats, each as it stands, and format files of the user's own."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.command_line import succeed, typed
from tests.import_ import counts
from tests.import_.importer import Importer
from tests.traces import json_of, rows_of
from tracekit.choices import ImportFormat, words
from tracekit.readers.format_files import FormatFile, lacking, list_formats
from tracekit.readers.formats import TEXTS
from tracekit.readers.memory import FORMATS as MEMORY

ROOT = Path(__file__).resolve().parents[2]
OWN = """about = "a gateway's log"
columns = "time,device,offset,length,op"
delimiter = ";"
example = "1;a;4096;8;get"

[unit]
time = "ms"
length = "sectors"

[op]
get = "read"
"""
LINES = "1;a;4096;8;get\n3;b;8192;16;put\n"
LISTED: dict[str, Any] = {one["name"]: one for one in list_formats().summary["formats"]}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder with a text, whose formats are the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/tracekit/formats").mkdir(parents=True)
    (tmp_path / "text").write_text(LINES)
    return tmp_path


def test_the_list_has_every_format() -> None:
    assert list(LISTED) == list(words(ImportFormat))
    binary = {
        "octf",
        "perfetto",
        "rbd-replay",
        "vscsi1",
        "vscsi2",
        "oracleGeneral",
        "oracleGeneralOpNS",
        "lcs",
    }
    assert {name for name, one in LISTED.items() if not one["example"]} == binary
    assert all(one["about"] and one["source"] for one in LISTED.values())


@pytest.mark.parametrize("form", TEXTS, ids=lambda one: one.name)
def test_what_a_text_lacks_is_what_its_columns_lack(form: Any) -> None:
    lacks = lacking(form)
    if form.name == "fio2":
        lacks -= {"time"}  # on lines of their own
    assert set(LISTED[form.name]["lacks"]) == lacks


@pytest.mark.parametrize("name", [name for name, one in LISTED.items() if one["example"]])
def test_an_example_is_imported_as_it_stands(name: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(LISTED[name]["example"])
    chosen = ["--format", name] if name == "ramulator-cpu" else []
    succeed("import", tmp_path / "text", "-o", tmp_path / "trace", *chosen)
    info = json_of(tmp_path / "trace/trace.json")
    assert info["counts"]["bad_lines"] == 0
    if name in MEMORY:
        assert info["counts"]["memory_accesses"] > 0
        assert info["source"]["format"] == name
        return
    assert info["counts"]["requests"] > 0
    assert name in info["source"]["format"]
    # AND what it lacks is lacking in the table
    rows = rows_of(tmp_path / "trace/requests.parquet")
    for column, key in {"response": "complete_ns", "process": "process"}.items():
        assert (column in LISTED[name]["lacks"]) == all(row[key] is None for row in rows)


@pytest.mark.parametrize("where", ["given", "kept"])
def test_a_format_file_says_how_a_text_is_read(where: str, place: Path) -> None:
    kept = place / "config/tracekit/formats/gateway.toml"
    file = kept if where == "kept" else place / "gateway.toml"
    file.write_text(OWN)
    given = "gateway" if where == "kept" else str(file)
    # WHEN a text is imported by it, with one word that the file does not know
    succeed("import", "text", "-o", "trace", "--format", given, "--op", "put=write")
    # THEN columns, units and words are the file's
    rows = rows_of(place / "trace/requests.parquet")
    assert [
        (r["queue_ns"], r["device"], r["sector"], r["length_bytes"], r["operation"]) for r in rows
    ] == [(0, "a", 8, 4096, "read"), (2_000_000, "b", 16, 8192, "write")]
    info = json_of(place / "trace/trace.json")
    assert info["source"]["format"] == "gateway"
    assert info["inferences"][0]["evidence"] == "the format file gateway"
    # AND it is listed where it is kept, and shown by its name or path
    listed = json.loads(succeed("formats", "--json").stdout)["formats"]
    names = {one["name"]: one for one in listed}
    assert ("gateway" in names) == (where == "kept")
    shown = json.loads(succeed("formats", given, "--json").stdout)["formats"][0]
    assert (shown["about"], shown["file"]) == ("a gateway's log", str(file))
    assert shown["lacks"] == ["pid", "process", "response"]
    assert "    1;a;4096;8;get" in succeed("formats", given).stdout


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        # github.com/cacheMon/cache_dataset has the columns of each.
        ("key,op,size,op_count,key_size\n1,GET,9,1,2\n", "CacheLib's key-value caches: requests"),
        ("op_time,key,key_size,op,op_count,size\n1,2,3,GET,1,9\n", "CacheLib's key-value caches"),
        ("timestamp,cacheKey,OpType,objectSize\n1,2,1,9\n", "CacheLib's CDN caches"),
        # wikitech.wikimedia.org/wiki/Analytics/Data_Lake/Traffic/Caching; iotta.snia.org: 36305
        (
            "relative_unix\thashed_path_query\timage_type\tresponse_size\ttime_firstbyte\n"
            "0\t1\tpng\t9\t0.01\n",
            "Wikipedia's CDN caches",
        ),
        ("1219008 REST.PUT.OBJECT 8d4fcda3d675bac9 1056\n", "IBM's object store"),
        ("0,q:q:1:8WTf,17,213,4,get,0\n1,q:q:1:8WTw,17,720,6,set,0\n", "Twitter's caches"),
        # AND by the form of their lines, behind a comment
        ("# kv\n5fe1,GET,82,1,12\n77aa,SET,9,1,12\n", "CacheLib's key-value caches"),
        ("1689,key1,12,GET_LEASE,1,80,0,,7,x\n", "CacheLib's key-value caches"),
        ("1689867600,309,1,5678,5678,400,-1,-1,99,0.01,1,1,1,55,1\n", "CacheLib's CDN caches"),
        ("0\t-1833522212\tjpeg\t8463\t0.000051\n", "Wikipedia's CDN caches"),
        ("0\t1833522212\t84\t0.000051\n", "Wikipedia's CDN caches"),
        ('1339518083.107412 [0 127.0.0.1:60866] "get" "x"\n', "redis-cli monitor"),
        ("<32 get user:1\n>32 sending key user:1\n", "calls of memcached"),
        ("READ usertable user62847 [ <all fields>]\n", "YCSB's basic database"),
        ("     usecs               : count     distribution\n", "a histogram, as biolatency"),
        ("TIME(ms)     DISK COMM   PID    LAT(ms)\n611  sda dd 9 10\n", "biosnoop.bt of bpftrace"),
        (f"@usecs:\n[1K, 2K)   426 |{'@' * 52}|\n", "a histogram, as biolatency"),
    ],
)
def test_what_is_no_trace_of_a_disk_is_named(lines: str, message: str, place: Path) -> None:
    (place / "text").write_text(lines)
    status, talk = typed("import", "text", "-o", "trace")
    assert status == 1
    assert message in talk
    assert not (place / "trace").exists()


def test_words_that_the_user_explains_are_of_a_disk(place: Path) -> None:
    (place / "text").write_text("sda,get,8192,4096,12\n" * 9)
    words_ = ("--columns", "device,op,offset,length,time", "--op", "get=read")
    succeed("import", "text", "-o", "trace", *words_)


def test_a_broken_format_file_hides_no_other(place: Path) -> None:
    # GIVEN two format files, one of which is none
    kept = place / "config/tracekit/formats"
    (kept / "gateway.toml").write_text(OWN)
    (kept / "broken.toml").write_text('columns = "time,op,lngth"')
    # WHEN all are listed THEN the others are, and what is wrong is told
    for more in ((), ("--json",)):
        status, talk = typed("formats", *more)
        assert status == 3
        assert "gateway" in talk
        assert "broken.toml, line 1, key 'columns': --columns time,op,lngth" in talk
    # AND the other one is shown without it
    succeed("formats", "gateway")
    assert typed("formats", "broken")[0] == 1


def test_the_file_of_the_page_is_one(place: Path) -> None:
    page = (ROOT / "docs/formats.md").read_text()
    (place / "gateway.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    succeed("import", "text", "-o", "trace", "--format", "gateway.toml")
    assert [row["operation"] for row in rows_of(place / "trace/requests.parquet")] == [
        "read", "write"]  # fmt: skip
    # AND the table names every key
    keys = {field.name for field in msgspec.structs.fields(FormatFile)}
    assert keys == {
        word.strip("[]")
        for word in re.findall(r"`(\[?[a-z]+\]?)`", page)
        if word.strip("[]") in keys
    }


def test_the_judgement_is_shown_with_the_other_formats(place: Path) -> None:
    # GIVEN lines of MQSim, three of which are DiskSim's only; all others may be both
    lines = [f"{at}{'.5' if at % 33 == 5 else ''} 4 {at * 8} 8 {at % 2}" for at in range(1, 101)]
    (place / "text").write_text("\n".join(lines) + "\n")
    words_ = ("import", "text", "-o", "trace", "--format", "mqsim", "--max-bad", "5", "--explain")
    shown = dict(line.split("  ", 1) for line in succeed(*words_).stdout.splitlines()[:5])
    # THEN what fits, and how well, stands before what was concluded of the units
    assert shown["format"].split() == ["mqsim", "(the", "first", "lines", "or", "records)"]
    assert "disksim, score" in shown["formats"]
    assert "sequential pairs" in shown["unit of lengths"]
    # AND without being asked nothing is compared
    succeed(*words_[:-1], "--force")
    named = [one["what"] for one in json_of(place / "trace/trace.json")["inferences"]]
    assert "format" in named
    assert "formats" not in named


def test_a_unit_on_the_command_line_is_in_place_of_the_files(place: Path) -> None:
    (place / "gateway.toml").write_text(OWN)
    unit = ("--unit", "time=s", "--op", "put=write")
    succeed("import", "text", "-o", "trace", "--format", "gateway.toml", *unit)
    assert [row["queue_ns"] for row in rows_of(place / "trace/requests.parquet")] == [0, 2 * 10**9]


def test_a_regular_expression_may_be_in_a_file(place: Path) -> None:
    pattern = "(?P<time>[0-9]+);[a-z]+;(?P<offset>[0-9]+);(?P<length>[0-9]+);(?P<op>[a-z]+)"
    (place / "own.toml").write_text(f"regex = '{pattern}'\n[op]\nget = 'read'\nput = 'write'\n")
    succeed("import", "text", "-o", "trace", "--format", "own.toml", "--unit", "length=sectors")
    assert [row["operation"] for row in rows_of(place / "trace/requests.parquet")] == [
        "read", "write"]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("columns", "colums"), "own.toml, line 2, key 'colums'"),
        (("ms", "parsec"), "own.toml, line 6, key 'unit': --unit time=parsec"),
        (('"read"', '"fetch"'), "own.toml, line 10, key 'op': --op get=fetch"),
        (("time,device", "time,devise"), "'devise' is unknown"),
        (('";"', "3"), "own.toml, line 3, key 'delimiter'"),
        (('columns = "time,device,offset,length,op"', ""), "give either columns or a regex"),
        (("about =", "about"), "own.toml is not valid TOML: line 1"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    change: tuple[str, str], message: str, place: Path
) -> None:
    (place / "own.toml").write_text(OWN.replace(*change))
    for words_ in (
        ("import", "text", "-o", "trace", "--format", "own.toml"),
        ("formats", "own.toml"),
    ):
        status, talk = typed(*words_)
        assert status in (1, 2)
        assert message in talk
        assert "Traceback" not in talk
    assert not (place / "trace").exists()


@pytest.mark.parametrize(
    ("words_", "message"),
    [
        (("--format", "nothing"), "--format nothing: there is no such format"),
        (("--format", "gone.toml"), "gone.toml: there is no such file"),
        (("--format", "own.toml", "--columns", "time,op,offset,length"), "give one of them"),
        (("--format", "own.toml", "--delimiter", ","), "2 of 2 lines are wrong"),
    ],
)
def test_a_wrong_choice_is_one_line(words_: tuple[str, ...], message: str, place: Path) -> None:
    (place / "own.toml").write_text(OWN)
    status, talk = typed("import", "text", "-o", "trace", *words_)
    assert status in (1, 2)
    assert message in talk
    assert not (place / "trace").exists()
    assert typed("formats", "nothing")[0] == 2


def test_counts_of_another_counter() -> None:
    # GIVEN traces written by the definitions of their formats, and recorded ones
    found = list(counts.rows(None))
    # THEN requests, reads, writes, bytes and span are those that plain Python counts
    assert len(found) > 10
    assert [name for name, _, counted, imported in found if counted != imported] == []


def test_words_of_a_cache_in_a_trace_of_a_disk(read: Importer) -> None:
    # GIVEN MSR's columns with the words of a cache
    words = ("get", "put", "put")
    lines = [
        f"{128166372003061629 + n * 10_000_000},src1,0,{words[n % 3]},{n * 4096},4096,500\n"
        for n in range(300)
    ]
    # THEN the hint of the refusal makes it a trace of a disk
    message = "a trace of CacheLib's key-value caches"
    read.rejects("".join(lines), message, hint="--op get=read --op put=write")
    found = read("".join(lines), operations=("get=read", "put=write"))
    assert found.content["counts"]["operations"] == {"read": 100, "write": 200}
    # AND what begins with one of the words names it
    hint = "--op put=OPERATION, such as put=write"
    read.rejects("".join(lines[1::3]), "but for its words of operations: put", hint=hint)
