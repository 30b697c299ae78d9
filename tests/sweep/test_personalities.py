"""The shipped personalities, and the plans that are made of them."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tracekit as tk
from tests.command_line import succeed
from tests.replay_files.program import run
from tests.traces import written
from tracekit.errors import InputError, UsageError
from tracekit.workload.file_plan import Tree, draw_sizes, write_personality
from tracekit.workload.flow import READS, WRITES, FileSet, operations, steps_of_a_turn
from tracekit.workload.personality import is_personality, open_personality, shipped
from tracekit.workload.random_values import RandomValue
from tracekit.workload.reader import shipped as shipped_profiles

SMALL = {
    "ffsb": {"files": "5", "mean_size": "64KiB", "threads": "3"},
    "zip": {"mean_size": "200KB", "packed_size": "100KB"},
    "unzip": {"mean_size": "200KB", "packed_size": "100KB"},
}
FEW = {"files": "60", "threads": "3", "mean_size": "8KiB"}
# Operations of one loop, counted in filebench's published definitions (workloads/*.f).
FILEBENCH = {
    name: Counter(loop.split())
    for name, loop in {
        "fileserver": "create write_file open append open read_file delete stat close close close",
        "webserver": "open read_file close " * 10 + "append",
        "webproxy": "delete create append close " + "open read_file close " * 5,
        "varmail": "delete create append fsync close open read_file append fsync close"
        " open read_file close",
    }.items()
}
# Table 1 of the study: files, mean size, size of a read and of a write, directory width, and the
# ratio of reads to writes.
TABLE_1 = {
    "fileserver": (100_000, 128 << 10, 1 << 20, 16 << 10, 20, (1, 2)),
    "webserver": (100_000, 64 << 10, 1 << 20, 8 << 10, 20, (10, 1)),
    "webproxy": (100_000, 32 << 10, 1 << 20, 16 << 10, 1_000_000, (5, 1)),
    "varmail": (50_000, 16 << 10, 1 << 20, 16 << 10, 1_000_000, (1, 1)),
}


STUDY_D = {
    "varmail-study-d": (16, 1000, 100_000_000, 1_000_000),
    "webproxy-study-d": (100, 10_000, 1_000_000, 1_000_000),
    "zip": (1, 2, 2_300_000_000, 1_000_000),
    "unzip": (1, 2, 2_300_000_000, 1_000_000),
    "ffsb": (20, 110, 100_000_000, 1_000_000),
}
"""Threads, files, mean size and directory width, as Liu et al. give them."""


def mean_size(files: FileSet) -> float:
    size = files.size
    return dict(size.parameters)["mean"] if isinstance(size, RandomValue) else size


def test_all_are_shipped() -> None:
    assert set(shipped()) == {*FILEBENCH, *STUDY_D}
    assert all(is_personality(name) for name in shipped())


@pytest.mark.parametrize("name", FILEBENCH)
def test_one_turn_is_one_loop_of_filebench(name: str) -> None:
    (group,) = open_personality(name, {}).groups
    assert steps_of_a_turn(group.flow) == FILEBENCH[name]


@pytest.mark.parametrize("name", TABLE_1)
def test_parameters_are_those_of_the_study(name: str) -> None:
    files, mean, read, write, width, ratio = TABLE_1[name]
    personality = open_personality(name, {})
    data = personality.file_set("data")
    assert (data.count, mean_size(data), data.width, data.width_shape) == (files, mean, width, 1.5)
    assert personality.threads == 50
    flow = list(operations(personality.groups[0].flow))
    sizes = {one.label: one.size for one in flow}
    assert (sizes["read_file"], sizes["append"]) == (read, write)
    reads, writes = (sum(one.kind in kinds for one in flow) for kinds in (READS, WRITES))
    assert reads * ratio[1] == writes * ratio[0]


@pytest.mark.parametrize("name", STUDY_D)
def test_parameters_are_those_of_study_d(name: str) -> None:
    personality = open_personality(name, {})
    data = personality.file_set("data")
    found = (personality.threads, data.count, mean_size(data), data.width)
    assert found == STUDY_D[name]


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    plans = []
    for seed, name in ((0, "a"), (0, "b"), (1, "c")):
        write_personality(open_personality("varmail", FEW), tmp_path / name, seed=seed)
        plans.append((tmp_path / name).read_bytes())
    first, again, other = plans
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", shipped())
def test_what_is_run_has_the_mix_of_the_flow(tmp_path: Path, name: str) -> None:
    personality = open_personality(name, SMALL.get(name, FEW))
    plan = tmp_path / "plan"
    write_personality(personality, plan)
    ran = run(plan, tmp_path, "--repeat", "0", "--duration-ns", "300000000")
    assert (ran.code, ran.summary["counts"]["failed"], ran.messages) == (0, 0, "")
    # THEN each thread did whole turns, but for its last one and the file that it has in hand
    turn = steps_of_a_turn(personality.groups[0].flow)
    done = {step["name"]: step["done"] for step in ran.summary["steps"]}
    turns = {label: done[label] / count for label, count in turn.items()}
    assert max(turns.values()) - min(turns.values()) <= personality.threads
    assert min(turns.values()) > 1
    assert done.keys() == turn.keys()


def test_sizes_follow_a_gamma_distribution() -> None:
    # Its variance is mean^2 / shape, and 100,000 sizes tell the mean to 1 %.
    size = open_personality("varmail", {}).file_set("data").size
    sizes = draw_sizes(FileSet("data", 100_000, size, 20), np.random.default_rng(1))
    assert abs(sizes.mean() / 16_384 - 1) < 0.01
    assert abs(sizes.var() / (16_384**2 / 1.5) - 1) < 0.05
    assert sizes.min() >= 1


@pytest.mark.parametrize(
    ("count", "width", "depth"), [(1, 20, 2), (20, 20, 2), (8001, 20, 3), (9, 3, 2), (1000, 9, 3)]
)
def test_directories_are_as_wide_and_deep_as_filebench_makes_them(
    count: int, width: int, depth: int
) -> None:
    # A directory takes files at the depth log(files) / log(width), at least 2; the root any number.
    tree = Tree(FileSet("data", count, 1, width), np.random.default_rng(0))
    assert len(set(tree.paths)) == count
    entries: dict[str, set[str]] = {}
    for path in tree.paths:
        parts = path.split("/")
        assert len(parts) - 1 == depth
        for level in range(1, len(parts)):
            entries.setdefault("/".join(parts[:level]), set()).add(parts[level])
    assert max(len(names) for path, names in entries.items() if path != "data") <= width
    assert sorted(tree.directories) == sorted(entries)


def test_a_parameter_that_is_not_there_is_named() -> None:
    # Commands pass over what a personality has not, and say so themselves.
    with pytest.raises(UsageError, match="has no parameter 'file'") as error:
        open_personality("varmail", {"file": "3"})
    assert error.value.hint == "did you mean 'files'?"


HEAD = '[parameters]\nthreads = 1\n[[files]]\nname = "a"\ncount = 9\nmean_size = 5\n'
STAT = '[[operation]]\ndo = "stat"\nfiles = "a"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[parameters]\nthreads = 1\n", "no [[files]]"),
        (HEAD, "no [[operation]]"),
        (HEAD + '[[operation]]\ndo = "opn"\nfiles = "a"\n', "did you mean open"),
        (HEAD + '[[operation]]\ndo = "open"\nfile = "a"\n', "did you mean 'files'"),
        (HEAD + '[[operation]]\ndo = "stat"\nfiles = "b"\n', "no files 'b' [[files]] are named a"),
        (HEAD + '[[operation]]\ndo = "close"\n', "nothing is open as handle 1"),
        (HEAD.replace("9", "9.5") + STAT, "[[files]] 1, key 'count': 9.5 is no whole number"),
        (
            HEAD + '[[operation]]\ndo = "open"\nfiles = "a"\n',
            "closing handle 1 add an [[operation]]",
        ),
        (HEAD + STAT + "size = 3\n", "takes no size"),
        (HEAD.replace("[[files]]", "[[files]]\nshared = true") + STAT, "unknown key 'shared'"),
        ('base = "varmial"\n', "did you mean varmail"),
        ('base = "varmail"\n[parameters]\nfile = 3\n', "did you mean 'files'"),
        (HEAD.replace("9", '"$n"') + STAT, "no parameter"),
        (HEAD.replace("threads = 1", "") + '[[operation]]\ndo = "close"\n', "'threads' is missing"),
    ],
)
def test_wrong_definitions(tmp_path: Path, text: str, words: str) -> None:
    file = written(tmp_path / "own.toml", text)
    with pytest.raises(InputError) as error:
        open_personality(str(file), {})
    assert words in f"{error.value} {error.value.hint}"
    assert str(file) in str(error.value)
    # AND bench takes it for a personality, not for a work profile with unknown keys
    assert is_personality(str(file))


def direct_flow(call: str, *, mean_size: str = "16384", more: str = "") -> str:
    return (
        f"[parameters]\nthreads = 1\n[[files]]\nname = 'a'\ncount = 9\nmean_size = {mean_size}\n"
        f"{more}\n[[operation]]\ndo = 'open'\nfiles = 'a'\ndirect = true\n"
        f"[[operation]]\n{call}\n[[operation]]\ndo = 'close'\n"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (direct_flow("do = 'read'\nsize = 1000"), "operation 2 (read): calls of 1,000 bytes"),
        (direct_flow("do = 'append'\nsize = 512\nrandom = true"), "calls of a random size"),
        (
            direct_flow("do = 'append'\nsize = 512", mean_size="700"),
            "files 'a' have 700 bytes each",
        ),
        (
            direct_flow("do = 'write_file'\nsize = 4096", more="size_shape = 1.5"),
            "the files 'a' have sizes that are drawn, so that writes end within a sector",
        ),
    ],
)
def test_what_direct_io_refuses_is_told_before_a_run(tmp_path: Path, text: str, words: str) -> None:
    file = written(tmp_path / "own.toml", text)
    with pytest.raises(InputError, match="refuses") as error:
        open_personality(str(file), {})
    assert words in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        direct_flow("do = 'read'\nsize = 4096"),
        direct_flow("do = 'read_file'\nsize = 4096", mean_size="700"),  # reads may end early
        direct_flow("do = 'append'\nsize = 512"),
        direct_flow("do = 'append'\nsize = 5").replace("direct = true", ""),
    ],
)
def test_what_direct_io_takes_is_taken(tmp_path: Path, text: str) -> None:
    file = written(tmp_path / "own.toml", text)
    assert open_personality(str(file), {}).threads == 1


def test_the_list_has_all_with_the_sizes_of_the_studies() -> None:
    listed = {one["name"]: one for one in tk.personalities().summary["personalities"]}
    assert [*listed] == [*shipped(), *shipped_profiles()]
    for name, (files, size, *_) in TABLE_1.items():
        log = int(name == "webserver")
        assert listed[name]["files"] == files + log
        assert listed[name]["bytes"] == pytest.approx(files * size, rel=0.001)
    for name, (threads, files, size, _) in STUDY_D.items():
        sets = 2 if name in ("zip", "unzip") else 1
        assert listed[name]["threads"] == threads
        assert (listed[name]["files"], listed[name]["bytes"]) == (files * sets, files * sets * size)


@pytest.mark.parametrize("name", [*shipped(), *shipped_profiles()])
def test_a_shown_definition_is_one(name: str, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(succeed("personalities", name).output)
    (copy,) = tk.personalities(str(own)).summary["personalities"]
    (original,) = tk.personalities(name).summary["personalities"]
    same = ("runs_on", "about", "threads", "files", "bytes", "parameters")
    assert {key: copy[key] for key in same} == {key: original[key] for key in same}


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="no personality or work profile 'vermail'") as refused:
        tk.personalities("vermail")
    assert "did you mean varmail?" in refused.value.hint
