"""`tracekit sql`: statements in, results in four forms, a dialogue, and how it is stopped."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.analyzers.folder import make
from tests.command_line import invoke, refused
from tests.simulate.placement_models import Request, write_trace
from tests.traces import written
from tracekit.analyze import analyze
from tracekit.errors import MissingError, UsageError
from tracekit.query import connect, views
from tracekit.sql import notes
from tracekit.store import TraceFolder

sql = partial(invoke, "sql")
REQUESTS = [
    {"role": "fs", "process": "sh\x1b[31m", "length_bytes": "4096", "queue_ns": "0"},
    {"role": "journal", "process": "", "length_bytes": "512", "queue_ns": ""},
]
STATEMENT = "select role, process, length_bytes, length_bytes / 3 as third from requests"


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    blocks = [{"block": "0", "writes": "1", "reads": "0"}]
    working_set = [{"window_ns": "0", "role": "fs", "new_blocks": "1"}]
    tables = {"requests": REQUESTS, "blocks": blocks, "working_set": working_set}
    return make(tmp_path / "trace", tables)


def test_table_aligns_columns_and_disarms_the_terminal(folder: TraceFolder) -> None:
    assert sql(folder.path, STATEMENT).stdout == (
        "role     process     length_bytes    third\n"
        "-------  ----------  ------------  -------\n"
        "fs       sh\\x1b[31m          4096  1365.33\n"
        "journal  null                 512  170.667\n"
    )


def test_table_is_cut_after_a_thousand_rows(folder: TraceFolder) -> None:
    lines = sql(folder.path, "select range from range(1001)").stdout.splitlines()
    assert len(lines) == 2 + 1000 + 1
    assert lines[-1] == "... more than 1000 rows; --format csv gives all of them"
    assert len(sql(folder.path, "select range from range(1000)").stdout.splitlines()) == 2 + 1000


def test_json_is_valid_for_every_number(folder: TraceFolder) -> None:
    text = (
        "select 1::hugeint as big, 0.25 as small, 'nan'::double as nothing, [1, 2] as list,"
        " sum(length_bytes) as total from requests"
    )
    expected = [{"big": 1, "small": 0.25, "nothing": None, "list": [1, 2], "total": 4608}]
    assert json.loads(sql(folder.path, text, "--json").stdout) == expected
    assert json.loads(sql(folder.path, "from requests where false", "--json").stdout) == []


def test_parquet_keeps_the_types(folder: TraceFolder, tmp_path: Path) -> None:
    output = tmp_path / "result.parquet"
    result = sql(folder.path, STATEMENT, "--format", "parquet", "-o", output)
    assert (result.exit_code, result.stdout) == (0, "")
    table = pq.read_table(output)
    assert table["length_bytes"].to_pylist() == [4096, 512]
    assert [str(field.type) for field in table.schema] == ["string", "string", "int64", "double"]


def test_output_is_whole_or_not_there(folder: TraceFolder, tmp_path: Path) -> None:
    output = tmp_path / "result.csv"
    # The conversion fails in row 70,000, when the first batches are written already.
    text = "select cast(if(range < 70000, '1', 'x') as integer) as a from range(100000)"
    refused(sql(folder.path, text, "--format", "csv", "-o", output))
    assert not [file.name for file in tmp_path.iterdir() if "result" in file.name]
    output.write_text("mine")
    refused(sql(folder.path, "select 1", "-o", output))
    assert output.read_text() == "mine"


def test_csv_and_a_statement_from_a_file(folder: TraceFolder, tmp_path: Path) -> None:
    file = written(tmp_path / "question.sql", "-- how many?\nselect count(*) as n\nfrom requests\n")
    assert sql(folder.path, "--file", file, "--format", "csv").stdout == "n\n2\n"
    text = "select 1 as a, 'x,\"y\"' as b, null as c"
    assert sql(folder.path, text, "--format", "csv").stdout == 'a,b,c\n1,"x,""y""",\n'


@pytest.mark.parametrize(
    "words", ["select 1|--interactive", "--file|/nowhere/x.sql", "select 1|--format|parquet"]
)
def test_wrong_use(folder: TraceFolder, words: str) -> None:
    error = MissingError if "nowhere" in words else UsageError
    refused(sql(folder.path, *words.split("|")), error=error)
    refused(sql())


def test_describe_names_every_view_and_column_that_there_is(folder: TraceFolder) -> None:
    analyze(folder)
    text = sql(folder.path, "--describe").stdout
    described = {note.name: note for note in notes()}
    with connect(folder) as connection:
        for view in views(connection):
            assert f"## {view}\n" in text
            columns = connection.sql(f'select * from "{view}"').columns  # noqa: S608
            assert set(columns) == set(described[view].columns)
    assert "## completions" not in text
    assert "## completions" in sql("--describe").stdout


def test_dialogue_from_a_pipe(folder: TraceFolder) -> None:
    typed = (
        ".tables\nselect role,\n  length_bytes\nfrom requests\nwhere role = 'fs';\n"
        ".schema working_set\nselect wrong;\n.mode csv\nselect 1 as a;\n.unknown\nselect 2 as b\n"
    )
    result = sql(folder.path, stdin=typed)
    assert result.exit_code == 0
    assert result.stdout == (
        "blocks\ngaps\nrequests\nsteps\nworking_set\n"
        "role  length_bytes\n----  ------------\nfs            4096\n"
        "working_set: one row per window and role\n"
        "  window_ns: start of the window\n  role: role\n"
        "  distinct_blocks: different 4 KiB blocks touched within the window\n"
        "  new_blocks: of these, blocks never touched before\n"
        "a\n1\nb\n2\n"
    )
    assert "Referenced column" in result.stderr
    assert ".unknown is unknown" in result.stderr
    assert sql(folder.path, stdin=".quit\nselect 1 as a;\n").stdout == ""


def read_until(terminal: int, wanted: bytes) -> bytes:
    """Read what a program shows until `wanted`, for twenty seconds at most."""
    shown = b""
    deadline_s = time.monotonic() + 20
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], deadline_s - time.monotonic())
        assert ready, f"{wanted!r} did not come, only {shown!r}"
        shown += os.read(terminal, 4096)
    return shown


def test_a_terminal_has_a_prompt_and_a_history(folder: TraceFolder, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "tracekit", "sql", str(folder.path)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb"},
    )
    try:
        read_until(ours, b"tracekit> ")
        os.write(ours, b"select 40 + 2 as answer;\n")
        shown = read_until(ours, b"tracekit> ")
        os.write(ours, b"\x04")
        status = program.wait(timeout=20)
    finally:
        program.kill()
        os.close(theirs)
        os.close(ours)
    assert status == 0
    assert b"answer\r\n" in shown
    assert b"    42\r\n" in shown
    assert (tmp_path / "state/tracekit/sql_history").read_text() == "select 40 + 2 as answer;\n"


LONG = "select count(*) from range(1000000000000) a where a.range % 7 = 3"
SORTED = "select * from range(300000000) a order by hash(a.range) desc"
SECONDS = 20
BUSY_SECONDS = 1


@pytest.mark.parametrize("statement", [LONG, SORTED])
def test_a_signal_ends_a_statement(tmp_path: Path, statement: str) -> None:
    # GIVEN a statement that takes minutes
    write_trace(tmp_path / "t", [Request("fs", 0)])
    command = [sys.executable, "-m", "tracekit", "sql", str(tmp_path / "t"), statement]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            _wait_until_busy(child.pid, tmp_path)
            # WHEN it is terminated, THEN it ends at once, and with it what it wrote beside
            child.send_signal(signal.SIGTERM)
            assert child.wait(SECONDS) == 128 + signal.SIGTERM
        finally:
            child.kill()
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def _wait_until_busy(pid: int, place: Path) -> None:
    """Wait until the command has opened its database, and used more time than its tables take."""
    opened: int | None = None
    ticks = os.sysconf("SC_CLK_TCK")
    deadline = time.monotonic() + 3 * SECONDS
    while time.monotonic() < deadline:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used = int(fields[11]) + int(fields[12])
        if opened is None and len(list(place.iterdir())) > 1:
            opened = used
        if opened is not None and used > opened + BUSY_SECONDS * ticks:
            return
        time.sleep(0.05)
