"""A trace as a user of the library has it: tables that are lazy, stages, temporary folders."""

import pickle
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import tracekit as tk
from tests.house.tree import ROOT

SAMPLE = ROOT / "sample-traces" / "oltp"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace folder of requests of a profile, classified."""
    path = tmp_path_factory.mktemp("api") / "web"
    tk.generate("web-server", path, requests=2000).classify()
    return path


def test_a_table_comes_as_pandas_arrow_and_polars(kept: Path) -> None:
    # GIVEN a lazy table
    few = tk.open(kept).requests.order("request_id").limit(3).select("request_id, operation")
    # THEN each library gets its own
    assert few.df()["request_id"].tolist() == [0, 1, 2]
    assert isinstance(few.arrow(), pa.Table)
    assert few.arrow().column_names == ["request_id", "operation"]
    assert few.pl().shape == (3, 2)
    assert pl.DataFrame(few).shape == (3, 2)
    assert pa.table(few).num_rows == 3


def test_relations_join_and_filter_lazily(kept: Path) -> None:
    # GIVEN two relations of one trace
    t = tk.open(kept)
    reads = t.requests.filter("operation = 'read'").set_alias("a")
    hot = t.sql("select * from blocks where temperature = 'hot'").set_alias("b")
    # WHEN they are joined
    joined = reads.join(hot, "a.sector // 8 = b.block")
    # THEN that is a relation too, and its rows are those of the statement
    assert isinstance(joined, tk.Relation)
    expected = t.sql(
        "select count(*) from requests as a inner join blocks as b on a.sector // 8 = b.block"
        " where operation = 'read' and temperature = 'hot'"
    )
    assert joined.count("*").fetchall() == expected.fetchall()


def test_a_stage_is_seen_by_relations_of_before(tmp_path: Path) -> None:
    # GIVEN a relation of a trace that is not classified
    t = tk.parse(SAMPLE, tmp_path / "t")
    requests = t.requests
    assert requests.select("role").distinct().fetchall() == [("unknown",)]
    assert "blocks" not in t.tables
    # WHEN it is classified
    t.classify()
    # THEN the same relation has the roles, and the new tables are there
    assert sorted(requests.select("role").distinct().fetchall()) == [("fs",), ("journal",)]
    assert "blocks" in t.tables


def test_two_traces_are_open_at_once(kept: Path) -> None:
    one, two = tk.open(kept), tk.generate("paging", requests=10)
    assert one.requests.count("*").fetchall() == [(2000,)]
    assert two.requests.count("*").fetchall() == [(10,)]
    assert one.requests.count("*").fetchall() == [(2000,)]


def test_a_temporary_trace_lives_as_long_as_what_refers_to_it() -> None:
    # GIVEN a table of a temporary trace, which nothing else refers to
    t = tk.generate("paging", requests=10)
    requests, path = t.requests, t.path
    del t
    # THEN its rows are there
    assert requests.count("*").fetchall() == [(10,)]
    # WHEN nothing refers to it any more, THEN its folder is gone
    del requests
    assert not path.parent.exists()


def test_a_trace_pickles_and_a_temporary_one_says_why_not(kept: Path) -> None:
    copied = pickle.loads(pickle.dumps(tk.open(kept)))  # noqa: S301 - our own
    assert copied.path == kept
    with pytest.raises(tk.TracekitError, match="temporary trace cannot be pickled"):
        pickle.dumps(tk.generate("paging", requests=10))


def test_sizes_are_texts_or_numbers(kept: Path) -> None:
    # GIVEN the same capacities as text, as number and as a list
    t = tk.open(kept)
    texts, mixed = t.recommend(capacity="1MiB,4MiB"), t.recommend(capacity=[1 << 20, "4MiB"])
    # THEN the answers are the same, as they were asked
    assert mixed.summary["asked"] == ["--capacity", f"{1 << 20}B,4MiB"]
    assert {**texts.summary} == {**mixed.summary, "asked": ["--capacity", "1MiB,4MiB"]}
    assert t.recommend(capacity=1 << 20).answer == texts.answer


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: t.recommend(coverage="coldest"),
            "--coverage coldest: not one of hottest, start",
        ),
        (lambda t: t.recommend(nvm="no-such"), "there is no device profile 'no-such'"),
        (lambda t: t.simulate.cache(policy="mru"), "--policy: there is no 'mru'"),
        (lambda t: t.replay(pace="slow"), "--pace slow: not one of trace, closed, fast"),
        (lambda t: t.classify(memory="much"), "--memory: 'much' is not a size"),
        (lambda t: t.analyze(memory="1MiB"), "--memory 1MiB: less than 256MiB"),
        (lambda t: t.sql("delete from requests"), "delete statements are not run"),
        (lambda t: t.sql("select nothing"), "nothing"),
        (lambda t: t.table("nothing"), "there is no table 'nothing'"),
        (lambda t: t.findings["nothing"], "there is no finding 'nothing'"),
        (lambda t: t.plot("nothing"), "has no figure 'nothing'"),
        (lambda _: tk.open("no/such"), "no/such: there is no such file or folder"),
    ],
)
def test_what_cannot_be_raises_and_prints_nothing(
    call: object, message: str, kept: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(call)
    with pytest.raises(tk.TracekitError) as raised:
        call(tk.open(kept))
    assert message in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_a_replay_has_its_own_rows(kept: Path, tmp_path: Path) -> None:
    # GIVEN two replays of a trace, one of which is shorter
    t = tk.open(kept)
    few, more = (t.replay(engine="null", pace="fast", limit=n, name=f"n{n}") for n in (10, 20))
    # THEN each has its completions, and its options as words
    assert few.completions.count("*").fetchall() == [(10,)]
    assert more.completions.count("*").fetchall() == [(20,)]
    assert few.summary["asked"] == [
        *("--engine", "null", "--pace", "fast", "--limit", "10", "--name", "n10")
    ]
    # also where a target is given by its place
    dry = t.replay(str(tmp_path / "new.img"), dry_run=True, name="dry")
    assert dry.summary["asked"][:2] == ["--target", str(tmp_path / "new.img")]
    few.check()
    # THEN they are compared by themselves or by name
    assert t.compare(few, "n20").summary["names"] == ["n10", "n20"]


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    # GIVEN a trace with a process whose name is a script
    text = "0.0,R,0,4096,<script>alert(1)</script>\n0.1,W,0,4096,b\n"
    (tmp_path / "t.csv").write_text(text)
    t = tk.read(tmp_path / "t.csv", columns="time,op,offset,length,process", unit="time=s")
    # THEN no HTML of it has the tag
    for shown in (t._repr_html_(), t.requests._repr_html_()):
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown


def test_the_package_lists_what_it_has_and_imports_nothing_for_it() -> None:
    # GIVEN a new interpreter
    code = (
        "import sys, tracekit as tk; names = dir(tk);"
        "print({'parse', 'read', 'open', 'generate', 'capture', 'run', 'Trace'} <= set(names),"
        " {'pyarrow', 'duckdb', 'numpy', 'typer'} & set(sys.modules));"
        "import tracekit.capture.session;"
        "print(callable(tk.capture), tk.capture.__name__)"
    )
    # WHEN the package is imported, also after a part that has the name of a function
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    # THEN the names are there, and nothing slow was imported
    assert done.splitlines() == ["True set()", "True capture"]


def test_a_type_checker_sees_the_signatures(tmp_path: Path) -> None:
    # GIVEN a script with one right and one wrong call
    script = tmp_path / "script.py"
    script.write_text(
        "import tracekit as tk\n"
        "reveal_type(tk.open('x').recommend(coverage='start').curve.df())\n"
        "tk.open('x').recommend(coverage='coldest')\n"
        "tk.nothing\n"
    )
    # WHEN it is checked
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(script)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # THEN the types are known, and what is wrong is found
    assert 'Revealed type is "pandas.' in done.stdout
    assert "has incompatible type \"Literal['coldest']\"" in done.stdout
    assert 'Module has no attribute "nothing"' in done.stdout
