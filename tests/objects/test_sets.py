"""Sets in object storage: to the last byte what they are on this machine."""

import gzip
import json
import os
from pathlib import Path

import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.objects.conftest import PROFILES
from tests.objects.server import Server
from tests.objects.stored import files, files_here, objects, put, remove
from tests.traces import write_folder
from tracekit.errors import InputError, PartialError

STAGES = ("classify", "analyze", "recommend", "set groups", "report")


def test_stages_leave_what_they_leave_here(root: str, here: Path) -> None:
    # GIVEN a set on this machine, and a copy in object storage
    url = f"{root}/set"
    succeed("set", "add", url, *(here / name for name in PROFILES))
    for stage in STAGES:
        # WHEN a stage runs over both
        words = () if stage in ("set groups", "report") else ("--memory", "600MiB")
        words = words if stage == "analyze" else ()
        shown, expected = (succeed(*stage.split(), place, *words) for place in (url, here))
        # THEN what is said is the same
        assert shown.stdout.replace(url, str(here)) == expected.stdout
    # THEN so are all files, to the last byte
    for name in PROFILES:
        assert files(f"{url}/{name}") == files_here(here / name)
    there = objects(url)
    for name in ("set.json", "groups.json", "placement.json"):
        assert there[name] == (here / name).read_bytes()
    assert b"<html" in there["report.html"]
    assert succeed("set", "list", url).stdout == succeed("set", "list", here).stdout
    assert json.loads(succeed("set", "info", url, "--json").stdout)["set"] == url


def test_what_is_up_to_date_is_not_fetched(running: Server, s3: str, here: Path) -> None:
    url = f"{s3}/set"
    succeed("set", "add", url, *(here / name for name in PROFILES))
    assert succeed("classify", url).stdout == "classify: 0 volumes done, 3 up to date\n"
    succeed("analyze", url)
    before = len(running.requests())
    assert succeed("analyze", url).stdout == "analyze: 0 volumes done, 3 up to date\n"
    # THEN no table of requests was read, and nothing was written
    asked = running.requests()[before:]
    assert asked
    assert {method for method, _ in asked} == {"GET", "HEAD"}
    assert not [path for _, path in asked if "/requests-" in path or "/blocks-" in path]
    # WHEN the options are others, THEN it is done again
    found = succeed("analyze", url, "--param", "window_count=50").stdout
    assert found == "analyze: 3 volumes done\n"


def test_an_import_of_a_url_is_that_of_the_file(root: str, tmp_path: Path) -> None:
    # GIVEN a compressed text of three volumes in object storage and here
    rows = (f"v{n % 3},{'RW'[n % 2]},{n * 4096},4096,{10**15 + n}\n" for n in range(600))
    text = gzip.compress("".join(rows).encode(), mtime=0)
    (tmp_path / "text.csv.gz").write_bytes(text)
    source = f"{root}/texts/text.csv.gz"
    put(source, text)
    words = ("--format", "alibaba")
    # WHEN both are imported, THEN volumes and traces are the same
    for more in (("--split-by", "volume"), ()):
        url, place = f"{root}/made{len(more)}", tmp_path / f"made{len(more)}"
        succeed("import", source, *words, *more, "-o", url)
        succeed("import", tmp_path / "text.csv.gz", *words, *more, "-o", place)
        for name in ("v0/", "v1/", "v2/") if more else ("",):
            assert files(f"{url}/{name}".rstrip("/")) == files_here(place / name)
    # WHEN something is there already, THEN it stays, or is replaced without a rest
    refused(invoke("import", source, *words, "-o", f"{root}/made0"), "exists already")
    succeed("import", source, *words, "-o", f"{root}/made2", "--force")
    files(f"{root}/made0")
    refused(invoke("import", source, "--resume", "-o", f"{root}/new"), "--resume does not go")
    spark = ("--split-by", "volume", "--engine", "spark")
    refused(invoke("import", source, *words, *spark, "-o", f"{root}/new"), "does not go with a URL")


def test_a_smaller_set_replaces_a_larger_one(root: str, tmp_path: Path) -> None:
    for volumes in (3, 2):
        rows = (f"v{n % volumes},R,{n * 4096},4096,{10**15 + n}\n" for n in range(60))
        (tmp_path / "text.csv").write_text("".join(rows))
        words = ("--split-by", "volume", "--format", "alibaba", "--force")
        succeed("import", tmp_path / "text.csv", *words, "-o", f"{root}/set")
    assert [*tk.open_set(f"{root}/set")] == ["v0", "v1"]
    assert {name.partition("/")[0] for name in objects(f"{root}/set")} == {"set.json", "v0", "v1"}


def test_what_is_not_of_the_set_stays(root: str, tmp_path: Path) -> None:
    # GIVEN a set, with objects of somebody else beside and in its volumes, older than a day
    rows = (f"v{n % 2},R,{n * 4096},4096,{10**15 + n}\n" for n in range(60))
    (tmp_path / "text.csv").write_text("".join(rows))
    words = ("--split-by", "volume", "--format", "alibaba", "--force")
    succeed("import", tmp_path / "text.csv", *words, "-o", f"{root}/set")
    theirs = ("notes/todo.txt", "v0/mine.txt", "v1/mine.txt")
    for name in theirs:
        put(f"{root}/set/{name}", b"mine")
        if root.startswith("file:"):
            os.utime(f"{root.removeprefix('file://')}/set/{name}", (0, 0))
    # WHEN a stage is done, and the set is replaced by one without v1
    succeed("classify", f"{root}/set")
    (tmp_path / "text.csv").write_text("v0,R,0,4096,1000000000000000\n" * 9)
    succeed("import", tmp_path / "text.csv", *words, "-o", f"{root}/set")
    # THEN they are there, and nothing else of v1
    left = objects(f"{root}/set")
    assert {*theirs} <= {*left}
    assert [name for name in left if name.startswith("v1/")] == ["v1/mine.txt"]


def test_a_trace_folder_that_was_copied_there_is_a_volume(root: str, tmp_path: Path) -> None:
    # GIVEN a trace folder whose files were copied into object storage by other means
    web = tmp_path / "set/web"
    write_folder(web, [{"queue_ns": 1000 * n, "sector": 8 * n} for n in range(50)])
    for place in files_here(web):
        put(f"{root}/set/web/{place}", (web / place).read_bytes())
    for one in (f"{root}/set", tmp_path / "set"):
        succeed("set", "add", one)
        # WHEN a stage is done, THEN its results are those of the folder, and nothing is left over
        succeed("classify", one)
    assert files(f"{root}/set/web") == files_here(web)


def test_a_trace_there_is_opened_by_its_url(root: str, here: Path, tmp_path: Path) -> None:
    succeed("set", "add", f"{root}/set", here / "paging")
    url = f"{root}/set/paging"
    statement = "select count(*) as n from requests"
    assert (
        succeed("sql", url, statement).stdout == succeed("sql", here / "paging", statement).stdout
    )
    # WHEN a stage changes it, THEN the next sees that
    tk.open(url).analyze().check()
    assert "totals" in tk.open(url).findings
    page = succeed("report", url).stdout.strip()
    assert page.startswith(f"{url}/report-")
    assert b"<html" in objects(f"{root}/set/paging")[page.rpartition("/")[2]]
    # WHEN it is added to a set of this machine, THEN it is copied
    found = tk.add_to_set(tmp_path / "copies", url)
    assert files_here(found.path / "paging") == files(url)
    again = invoke("set", "add", f"{root}/set", url)
    refused(again, f"{url}: {root}/set has a volume paging already", error=PartialError)


def test_volumes_that_are_damaged_are_named_and_the_others_go_on(s3: str, here: Path) -> None:
    url = f"{s3}/set"
    succeed("set", "add", url, *(here / name for name in PROFILES))
    # GIVEN an object that is cut, and one that is gone
    found = objects(url)
    cut = next(name for name in found if name.startswith("paging/requests-"))
    gone = next(name for name in found if name.startswith("log-structured/trace-"))
    put(f"{url}/{cut}", found[cut][:-10])
    remove(f"{url}/{gone}")
    result = invoke("analyze", url)
    assert isinstance(result.exception, PartialError)
    assert f"{len(found[cut]) - 10:,} bytes of {len(found[cut]):,}" in result.stderr
    assert f"{url}/{gone}: there is no such object" in result.stderr
    assert "analyze: 1 volume done, 2 left out" in result.stdout
    # GIVEN an object of the right size whose content is another
    put(f"{url}/{cut}", found[cut][:-10] + b"0123456789")
    refused(invoke("sql", f"{url}/paging", "select 1"), "is damaged", error=InputError)
    # GIVEN a list that is none
    put(f"{url}/web-server/files.json", b'{"schema": 1, "files": {"../x": {"object": "x"}}}')
    assert "files.json" in invoke("set", "list", url).stderr


def test_a_set_is_made_anew_of_its_volumes(root: str, here: Path) -> None:
    url = f"{root}/set"
    succeed("set", "add", url, *(here / name for name in PROFILES))
    before = objects(url)
    remove(f"{url}/set.json")
    refused(invoke("set", "list", url), "it has no set.json", error=InputError)
    succeed("set", "add", url)
    assert objects(url) == before
    with pytest.raises(InputError, match="not a trace folder"):
        tk.open(f"{url}/nothing")
