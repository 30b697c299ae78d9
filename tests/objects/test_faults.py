"""What goes wrong with object storage is said in a line; what was there before stays whole."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed, with_free_bytes
from tests.objects.server import Line, Server, server
from tests.objects.stored import files, files_here, listed_files, objects, put
from tracekit.errors import InputError, TracekitError
from tracekit.objects.location import Location
from tracekit.objects.stored import StoredFolder

TIMEOUT_S = 120


@pytest.fixture
def url(root: str, here: Path) -> str:
    """Return the URL of a set with one volume."""
    return str(succeed("set", "add", f"{root}/set", here / "web-server") and f"{root}/set")


def run(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tracekit", *map(str, words)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check that a command failed with a line that has these words, and one of advice."""
    assert done.returncode in (1, 2), done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert [line.startswith("  ") for line in lines] == [False, True], done.stderr
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize("uploads", [0, 1, 20, 31])
def test_a_server_that_dies_leaves_the_volume_as_it_was(
    running: Server, s3: str, here: Path, tmp_path: Path, uploads: int
) -> None:
    # GIVEN a set, and a server that dies after so many uploads of 32: 31 files and the list
    url = f"{s3}/set"
    succeed("set", "add", url, here / "web-server")
    before = files(f"{url}/web-server")
    line = Line(running.port, uploads=uploads)
    work = tmp_path / "work"
    work.mkdir()
    try:
        place = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{line.port}", "TMPDIR": str(work)}
        done = run("analyze", f"{url}/web-server", **place)
    finally:
        line.cut()
    one_line(done, url, "no connection")
    assert [*work.iterdir()] == []
    # THEN the volume is as it was, beside what was left over
    listed = objects(f"{url}/web-server")
    assert len(listed) >= len(before) + 1 + uploads
    assert tk.open(f"{url}/web-server").path.joinpath("findings").exists() is False
    # WHEN it runs again, THEN nothing is left over
    succeed("analyze", f"{url}/web-server")
    succeed("analyze", here / "web-server")
    assert files(f"{url}/web-server") == files_here(here / "web-server")


def test_of_two_writers_the_second_is_refused(url: str) -> None:
    # GIVEN two who have opened the same volume
    first, second = tk.open(f"{url}/web-server"), tk.open(f"{url}/web-server")
    first.classify(hot=0.4)
    expected = files(f"{url}/web-server")
    # THEN what the second does is left out, and that of the first is whole
    with pytest.raises(TracekitError, match="somebody else wrote it meanwhile"):
        second.classify(hot=0.6)
    assert listed_files(f"{url}/web-server") == expected
    # WHEN the second opens it again, THEN its work is kept
    tk.open(f"{url}/web-server").classify(hot=0.6)
    assert files(f"{url}/web-server") != expected


def test_a_reader_gets_what_replaced_what_it_saw_listed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a volume that somebody else classifies anew when its list was read, but no file yet
    location = Location.of(f"{url}/web-server")
    assert location is not None
    reader, listed = StoredFolder(location), StoredFolder.read
    reader.read()
    before = {*reader.files}

    def read(stored: StoredFolder) -> None:
        monkeypatch.setattr(StoredFolder, "read", listed)
        listed(stored)
        tk.open(f"{url}/web-server").classify(hot=0.3)

    monkeypatch.setattr(StoredFolder, "read", read)
    (tmp_path / "read").mkdir()
    reader.fetch(tmp_path / "read")
    # THEN it has the new files, and none of those before
    assert files_here(tmp_path / "read") == files(f"{url}/web-server")
    assert before == {*reader.files}


def test_what_is_no_place_is_refused_in_a_line(s3: str, here: Path) -> None:
    refused(invoke("set", "list", "s3://no-such-bucket/set"), "no such bucket", error=InputError)
    source = here / "web-server/requests.parquet"
    refused(
        invoke("import", source, "-o", "s3://no-such-bucket/x"), "no such bucket", error=InputError
    )
    refused(invoke("classify", f"{s3}/none"), "not a trace folder", error=InputError)
    refused(invoke("import", f"{s3}/none.csv"), "no such object", error=InputError)
    refused(invoke("set", "list", "ftp://host/set"), "no file system", error=InputError)
    put(f"{s3}/set/set.json", b"{")
    refused(invoke("set", "list", f"{s3}/set"), f"{s3}/set/set.json", error=InputError)


def test_no_network_and_no_rights_are_one_line(s3: str, tmp_path: Path) -> None:
    line = Line(1, uploads=0)
    line.cut()
    done = run("set", "list", f"{s3}/set", AWS_ENDPOINT_URL=f"http://127.0.0.1:{line.port}")
    one_line(done, f"{s3}/set", "no connection", "Could not connect")
    done = run("set", "list", f"{s3}/set", AWS_ENDPOINT_URL="http://host.invalid:1")
    one_line(done, f"{s3}/set", "no connection", "host.invalid")
    # GIVEN a server that knows no user
    with server(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="0") as strict:
        done = run("set", "list", f"{s3}/set", **strict.variables)
    one_line(done, f"{s3}/set", "access is denied")
    assert "AWS_ACCESS_KEY_ID" in done.stderr


def test_what_goes_to_a_folder_makes_none_for_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("generate", "paging", "--requests", "10", "-o", "s3://bucket/folder")
    refused(invoke(*words), "of this machine")
    assert [*tmp_path.iterdir()] == []


def test_a_password_in_a_url_is_not_shown(s3: str) -> None:
    done = run("set", "list", f"s3://test:hunter2@{s3.removeprefix('s3://')}/set")
    one_line(done, f"{s3}/set is not a trace set")
    assert "hunter2" not in done.stderr + done.stdout


def test_a_full_disk_is_found_before_anything_is_fetched(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_free_bytes(monkeypatch, tmp_path, 4096)
    result = invoke("sql", f"{url}/web-server", "select 1")
    refused(result, "are needed", "4 KiB are free", error=InputError)
    assert isinstance(result.exception, InputError)
    assert "TMPDIR" in result.exception.hint


def test_ctrl_c_leaves_the_volume_as_it_was(s3: str, here: Path, tmp_path: Path) -> None:
    url = f"{s3}/set"
    succeed("set", "add", url, here / "web-server")
    before = files(f"{url}/web-server")
    work = tmp_path / "work"
    work.mkdir()
    # GIVEN a command that has fetched the volume
    command = [sys.executable, "-m", "tracekit", "analyze", f"{url}/web-server"]
    program = subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(work)}, stderr=subprocess.PIPE, text=True
    )
    end_s = time.monotonic() + TIMEOUT_S
    while not [*work.rglob("requests.parquet")] and time.monotonic() < end_s:
        time.sleep(0.01)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=TIMEOUT_S)
    assert program.returncode == 128 + signal.SIGINT
    assert "Traceback" not in said
    assert [*work.iterdir()] == []
    assert files(f"{url}/web-server") == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/a b/c", "s3://bucket/a b/c"),
        ("s3:/bucket/a", "s3://bucket/a"),
        ("s3://key:secret@bucket/a/?region=x&scheme=http", "s3://bucket/a"),
        ("gs://bucket", "gs://bucket"),
        ("hdfs://host:8020/a/b", "hdfs://host:8020/a/b"),
        ("file:///tmp/a", "file:///tmp/a"),
        ("file:/tmp/a", "file:///tmp/a"),
        ("/s3:/a", "None"),
        ("out/set", "None"),
        ("c:", "None"),
    ],
)
def test_what_is_a_url(text: str, expected: str) -> None:
    assert str(Location.of(text)) == expected
    assert str(Location.of(Path(text))) == expected
