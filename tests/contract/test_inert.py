"""Names that somebody hostile chose do nothing, wherever they are shown or written."""

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.analyzers.folder import make
from tests.command_line import invoke, refused, succeed
from tests.generate.profiles import HEAD
from tests.replay.trace import trace
from tests.report.folder import make_folder
from tests.traces import written
from tracekit import progress
from tracekit._native import program_path
from tracekit.errors import InputError
from tracekit.escapes import escape, operand, shell_line
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section
from tracekit.report.sections.front import reproduce
from tracekit.store import TraceFolder, command_line, write_json

ACTING = {
    "colour": "\x1b[31mred",
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;eA==\x1b\\",
    "c1": "\x9b2J",
    "delete": "a\x7f\x08b",
    "override": "\u202etxt.exe",
    "isolate": "\u2066a\u2069",
    "nothing": "a\u200bb\ufeff",
    "line": "a\ntracekit: all is well",
    "return": "a\rtracekit: all is well",
    "separator": "a\u2028b\x85c",
    "tab": "a\tb",
    "byte": "a\udc9bb",
}
"""Characters that command a terminal, hide, reorder, or end a line."""
SHELL = ["fast; touch X #", "$(touch X)", "`touch X`", "a' b\"", "*", "~", "-rf", "--output=x", ""]
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\uff1d1"]
MARKUP = ["[red]x[/red]", "{task.description}", "[/]"]
LOUD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
hostile = pytest.mark.parametrize("name", ACTING.values(), ids=ACTING)


@hostile
def test_a_text_becomes_one_printable_line(name: str) -> None:
    shown = escape(name)
    assert shown.isprintable()
    assert shown != name
    assert escape(shown) == shown
    assert escape("é ☃ 日本\xa0語") == "é ☃ 日本\xa0語"


def run(*words: str | Path, **more: object) -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-m", "tracekit", *map(str, words)]
    return subprocess.run(line, capture_output=True, check=False, timeout=60, **more)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("words", [["sql"], ["analyze"], ["--no-such-option"], ["no-command"]])
def test_errors_of_the_program_and_of_its_parser_are_inert(
    tmp_path: Path, words: list[str]
) -> None:
    # GIVEN a name with all of it in the place of a folder, an option or a command
    name = "".join(part for part in ACTING.values() if "\udc9b" not in part)
    made = [*words, name] if words[0] in ("sql", "analyze") else [words[0] + name]
    # WHEN the program complains
    ended = run(*made, cwd=tmp_path, stdin=subprocess.DEVNULL)
    # THEN only its own lines end, and nothing acts
    text = (ended.stdout + ended.stderr).decode()
    assert ended.returncode in (1, 2)
    assert "\\x1b[31mred" in text
    assert not LOUD.search(text)
    assert not [line for line in text.splitlines() if line.startswith("tracekit: all is well")]


def test_a_surrogate_of_a_name_is_no_error_of_its_own(tmp_path: Path) -> None:
    ended = run("sql", tmp_path / "a\udc9bb", "select 1")
    assert ended.stderr.decode().startswith(f"tracekit: {tmp_path}/a\\udc9bb: there is no such")


def test_a_failure_that_nobody_expected_is_inert() -> None:
    code = (
        "import sys, tracekit.cli as cli\n"
        "def fail(): raise RuntimeError('a\\x1b[31m')\n"
        "cli.app = fail\n"
        "cli.main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert b"RuntimeError: a\\x1b[31m" in ended.stderr
    assert b"\x1b" not in ended.stderr


def test_a_finding_is_rejected_by_its_name_escaped(tmp_path: Path) -> None:
    folder = make(tmp_path / "trace", {"requests": [{"role": "fs"}]}).path
    (folder / "findings").mkdir()
    finding = folder / "findings" / "f\x1b[2J\n.parquet"
    shutil.copy(folder / "requests.parquet", finding)
    result = invoke("sql", folder, "select 1")
    refused(result, "f\\x1b[2J\\x0a.parquet", error=InputError)
    hint = result.exception.hint  # type: ignore[union-attr]
    assert words_of(hint.removeprefix("remove it: ")) == ["rm", str(finding)]


def test_every_command_shows_the_names_of_a_trace_inert(tmp_path: Path) -> None:
    # GIVEN a trace whose folder, devices, processes, replays and findings are called that
    names = [name for name in ACTING.values() if name.isascii()]
    processes = [*names, *FORMULAS, *MARKUP, "<script>"]
    folder = make_folder(tmp_path / f"t{''.join(names)}", requests=48, processes=processes).path
    shutil.copytree(folder / "replays/file", folder / "replays" / "r\x1b[2J\n")
    runs: list[list[str | Path]] = [
        ["sql", folder, "from requests limit 20"],
        ["sql", folder, 'from "no\x1bsuch"'],
        ["compare", folder, "trace", "r\x1b[2J\n"],
        ["compare", folder, "trace", "no\x1b[2J\n"],
        ["replay", folder, "--resume", "r\x1b[2J\n"],
        ["fit", folder, "-o", tmp_path / "p\x1b.toml", "--names"],
        ["export", folder, "--format", "blkparse", "-o", tmp_path / "e\x1b[2J\n"],
        ["export", folder, "--format", "fio", "-o", tmp_path / "e\x1b[2J\n"],
        ["classify", folder, "--role", "no\x1b[2J=fs"],
        ["classify", folder],
        ["report", folder],
    ]
    works: list[bool] = []
    for words in runs:
        result = invoke(*words)
        error = result.exception
        said = f"{result.stdout}{result.stderr}{error}{getattr(error, 'hint', '')}"
        assert not LOUD.search(said), (words, ascii(said))
        assert "\ntracekit: all is well" not in said, words
        assert error is None or isinstance(error, SystemExit | InputError.__base__), words
        works.append(error is None)
    # THEN most work, and the report is inert, too
    assert works.count(True) >= 5, works
    text = (folder / "report.html").read_text()
    assert not LOUD.search(text)


@hostile
def test_progress_shows_names_and_no_markup_of_theirs(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def steps(label: str, step: str) -> None:
        with progress.step_progress(label) as on_step:
            on_step(step, 1, 2)

    def stages(stage: str) -> None:
        with progress.stage_progress() as on_stage:
            on_stage(stage)

    shows = (lambda text: steps(text, ""), lambda text: steps("", text), stages)
    for label, show in product((name, *MARKUP), shows):
        shown = Terminal()
        monkeypatch.setattr(sys, "stderr", shown)
        show(label)
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())  # rich's own
        assert escape(label) in text
        assert not LOUD.search(text.replace("\r", ""))


# --- CSV -----------------------------------------------------------------------------------------

TEXTS = [*(name for name in ACTING.values() if name != ACTING["byte"]), *FORMULAS, "plain", ""]


def test_csv_is_inert_unless_asked_raw(tmp_path: Path) -> None:
    # GIVEN texts as values, in a list, as words of an enumeration and of a union, and in names
    text = (
        "select v as \"=p\x1b\", -1 as n, -0.5 as x, [v] as l, v::enum('=1', 'b') as e,"
        " union_value(u := v) as u, to_json(v) as j"
        " from (values ('=1'), ('b'), (null)) t(v)"
    )
    folder = make(tmp_path / "trace", {"requests": [{"role": "fs"}]})
    shown = list(
        csv.reader(io.StringIO(succeed("sql", folder.path, text, "--format", "csv").stdout))
    )
    raw = list(
        csv.reader(
            io.StringIO(succeed("sql", folder.path, text, "--format", "csv", "--raw").stdout)
        )
    )
    assert raw[0][:3] == ["=p\x1b", "n", "x"]
    assert shown[0][:3] == ["'=p\\x1b", "n", "x"]
    assert raw[1] == ["=1", "-1", "-0.5", "['=1']", "=1", "=1", '"=1"']
    assert shown[1] == ["'=1", "-1", "-0.5", "['=1']", "'=1", "'=1", '"=1"']
    assert shown[2:] == raw[2:]


def test_each_text_of_csv_is_inert_and_raw_as_it_is(tmp_path: Path) -> None:
    values = ", ".join(f"($${text}$$)" for text in TEXTS)
    text = f"select v from (values {values}) t(v)"  # noqa: S608
    folder = make(tmp_path / "trace", {"requests": [{"role": "fs"}]})
    for name, more in (("inert", []), ("raw", ["--raw"])):
        output = tmp_path / name
        succeed("sql", folder.path, text, "--format", "csv", "-o", output, *more)
    raw = (tmp_path / "raw").read_bytes().decode()
    assert all(text.replace('"', '""') in raw for text in TEXTS)
    content = (tmp_path / "inert").read_text()
    assert not LOUD.search(content)
    assert len(content.splitlines()) == len(TEXTS) + 1
    assert not [line for line in content.splitlines() if re.match(r'"?[=+@\uff1d-]', line)]
    assert "\nplain\n" in content
    assert invoke("sql", folder.path, text, "--raw").exit_code != 0


def test_a_program_writes_csv_inert_and_raw_to_its_output(tmp_path: Path) -> None:
    folder = make(tmp_path / "trace", {"requests": [{"role": "fs"}]})
    asked = ("sql", folder.path, "select chr(27) as a", "--format", "csv")
    assert run(*asked).stdout == b"a\n\\x1b\n"
    assert run(*asked, "--raw").stdout == b"a\n\x1b\n"


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_json_is_inert_and_keeps_the_value(tmp_path: Path, text: str) -> None:
    folder = make(tmp_path / "trace", {"requests": [{"role": "fs"}]})
    shown = succeed("sql", folder.path, f"select $${text}$$ as v", "--json").stdout
    assert json.loads(shown) == [{"v": text}]
    assert not LOUD.search(shown)


# --- Shell ---------------------------------------------------------------------------------------


def words_of(line: str) -> list[str]:
    """Return the words of a line as bash has them; dash must be able to read it, too."""
    subprocess.run(["sh", "-n", "-c", line], check=True, timeout=10)
    code = f"printf '%s\\0' {line}"
    ended = subprocess.run(["bash", "-c", code], capture_output=True, check=True, timeout=10)
    return ended.stdout.decode(errors="surrogateescape").split("\0")[:-1]


@pytest.mark.parametrize("name", [*ACTING.values(), *SHELL, *FORMULAS, *MARKUP, "é'\x1b\\"])
def test_a_line_of_shell_has_just_these_words(name: str) -> None:
    line = shell_line(["tracekit", "report", name])
    assert line.isprintable()
    assert words_of(line) == ["tracekit", "report", name]
    if name.isprintable():
        assert shlex.split(line) == ["tracekit", "report", name]
    # AND as a file it is no option
    words = words_of(command_line("simulate tiers", Path(name)))
    assert words == ["tracekit", "simulate", "tiers", operand(str(Path(name)))]
    assert not words[-1].startswith("-")


def test_how_to_reproduce_runs_nothing_else(tmp_path: Path) -> None:
    # GIVEN a folder whose names, options and files are lines of shell
    folder = make_folder(tmp_path / "-rf; touch X")
    summary = folder.path / "replays/file/summary.json"
    content = json.loads(summary.read_text())
    for place, text in enumerate(SHELL[:4]):
        own = folder.path / "replays" / f"{place} $(touch X)"
        own.mkdir()
        engine = {**content["engine"], "asked": text}
        write_json(own / "summary.json", {**content, "pace": "fast", "engine": engine})
        shutil.copy(summary.with_name("completions.parquet"), own)
    files = [{"name": name, "bytes": 1, "sha256": "0"} for name in SHELL[:-1]]
    folder.save_info(source={"format": "blktrace", "files": files})
    # WHEN the commands are shown
    section = reproduce(Inputs(TraceFolder(folder.path)))
    assert isinstance(section, Section)
    lines = list(section.parts["commands"])
    # THEN each is one command of these words
    assert {words_of(line)[0] for line in lines} == {"tracekit", "sha256sum"}
    assert [shlex.split(line) for line in lines] == [words_of(line) for line in lines]
    assert ["sha256sum", *map(operand, SHELL[:-1]), "layout.json"] in map(shlex.split, lines)
    assert not (tmp_path / "X").exists()


# --- Files of other tools ------------------------------------------------------------------------

JOB_LINE = re.compile(r"#.*|\[(global|[\w.-]+)\]|[a-z_]+=[^\n]*|")
INJECTED = "x\n[evil]\nexec_prerun=touch X\nioengine=external:/tmp/x.so\n"


STREAM = """\
[[stream]]
process = {0}
[stream.arrival]
process = "exponential"
mean = "1ms"
[[stream.request]]
share = 1
operation = "read"
access = "random"
size = "4KiB"
"""


LONG = "a" * 4093 + "exec_prerun=touch X"
"""As a comment longer than fio's lines: the rest would be one of its own."""


@pytest.mark.parametrize("text", [LONG, "; [evil] # \\"], ids=["long", "marks"])
def test_a_profile_adds_nothing_to_a_job_of_fio(tmp_path: Path, text: str) -> None:
    # GIVEN a profile whose texts look like parts of a job
    quoted = json.dumps(text)
    head = f"name = {quoted}\nabout = {quoted}\n{HEAD.partition(chr(10))[2]}"
    file = written(tmp_path / "p.toml", head + STREAM.format(quoted))
    # WHEN it is written as a job, whose name holds some, too
    job = tmp_path / "job\n[evil]\nexec_prerun=x.fio"
    succeed("generate", file, "--format", "fio", "-o", job)
    # THEN there is the one section, and no option but those of a plain profile
    lines = job.read_text().split("\n")
    assert not [line for line in lines if not JOB_LINE.fullmatch(line) or len(line) > 1000]
    assert len([line for line in lines if line.startswith("[")]) == 2
    plain = written(tmp_path / "q.toml", HEAD + STREAM.format('"p"'))
    succeed("generate", plain, "--format", "fio", "-o", tmp_path / "plain.fio")
    assert options_of(lines) == options_of((tmp_path / "plain.fio").read_text().split("\n"))
    if shutil.which("fio"):
        subprocess.run(["fio", "--parse-only", "--filename=x", str(job)], check=True, cwd=tmp_path)


def test_a_profile_with_lines_in_its_texts_is_rejected(tmp_path: Path) -> None:
    for key in ("name", "about"):
        plain = HEAD.partition("\n")[2] if key == "name" else HEAD
        head = f"{key} = {json.dumps(INJECTED)}\n{plain}"
        file = written(tmp_path / "p.toml", head + STREAM.format('"p"'))
        asked = ("generate", file, "--format", "fio", "-o", tmp_path / "job")
        refused(invoke(*asked), "is no plain text", error=InputError)


def options_of(lines: list[str]) -> list[str]:
    return [line for line in lines if re.match(r"[a-z]", line)]


@pytest.fixture
def exported(tmp_path: Path) -> TraceFolder:
    """Return a trace whose devices, processes and partitions hold all of it."""
    texts = [INJECTED, *TEXTS, *SHELL, "9" * 5000, "a" * 5000 + "=x"]
    rows = [
        {"device": text, "process": text, "partition": text, "queue_ns": 1000 * place}
        for place, text in enumerate(texts)
    ]
    return trace(tmp_path / "trace", rows)


LINES = {
    "blkparse": r" *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ [A-Z] [A-Z]+ .*",
    "fio": r"\d+ [\w.,+-]{1,110} (add|open|close|write \d+ \d+)|fio version 3 iolog",
    "msr": r"\d+,\w[\w.+-]{0,110},\d+,Write,\d+,\d+,\d+",
}


@pytest.mark.parametrize("form", LINES)
def test_names_add_no_lines_and_no_fields_to_an_export(
    exported: TraceFolder, tmp_path: Path, form: str
) -> None:
    requests = pq.read_table(exported.table("requests"))
    count, devices = len(requests), len(set(requests["device"].to_pylist()))
    output = tmp_path / "out"
    succeed("export", exported.path, "--format", form, "-o", output)
    lines = output.read_text().removesuffix("\n").split("\n")
    assert not [line for line in lines if not re.fullmatch(LINES[form], line)]
    assert len(lines) == {"blkparse": count, "fio": 1 + 3 * devices + count, "msr": count}[form]
    assert not LOUD.search("".join(lines))
    if form == "fio":
        job = (tmp_path / "out.fio").read_text().split("\n")
        assert not [line for line in job if not JOB_LINE.fullmatch(line) or len(line) > 4095]
        (made,) = [line for line in job if line.startswith("exec_prerun=")]
        plain = r"truncate -s \d+ \w[\w.,+-]*"
        assert re.fullmatch(f"exec_prerun={plain}( && {plain})*", made)


def test_too_many_devices_for_a_line_of_fio_are_an_error(tmp_path: Path) -> None:
    rows = [{"device": f"{'d' * 90}{number}"} for number in range(60)]
    folder = trace(tmp_path / "trace", rows)
    refused(
        invoke("export", folder.path, "--format", "fio", "-o", tmp_path / "t"),
        "60 devices",
        error=InputError,
    )
    assert not (tmp_path / "t").exists()


@hostile
def test_the_replayer_quotes_names_inert(tmp_path: Path, name: str) -> None:
    ended = subprocess.run(
        [program_path(), f"é{name}", "--engine", "null", "--summary", "x"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        timeout=10,
    )
    text = ended.stderr.decode()
    assert text.startswith("tracekit-replay: cannot open the plan é")
    assert text.count("\n") == 1
    assert not LOUD.search(text)
