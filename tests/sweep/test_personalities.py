"""The shipped personalities, and the plans that are made of them."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay_files.program import run
from tests.traces import written
from tracekit.errors import InputError, UsageError
from tracekit.plans import file_plan
from tracekit.workload.file_plan import describe, draw_sizes, file_path, write_personality
from tracekit.workload.personality import FileSet, is_personality, open_personality, shipped


@dataclass
class Machine:
    """What a plan does, step by step; every rule that it breaks is an assertion."""

    plan: Path
    sizes: dict[int, int] = field(default_factory=dict)
    peak_bytes: int = 0
    open: dict[int, tuple[int, bool]] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    logs: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the plan's parts one after the other."""
        data = self.plan.read_bytes()
        self.header = np.frombuffer(data, file_plan.HEADER, 1)[0]
        place = file_plan.HEADER.itemsize
        parts: list[Any] = []
        for layout, key in (
            (file_plan.RECORD, "record"),
            (file_plan.THREAD, "thread"),
            (file_plan.STEP, "step"),
            (file_plan.FILE, "file"),
        ):
            count = int(self.header[f"{key}_count"])
            parts.append(np.frombuffer(data, layout, count, place))
            place += count * layout.itemsize
        self.records, self.threads, labels, self.files = parts
        self.labels = [label.decode() for label in labels["label"]]
        there = np.flatnonzero((self.files["is_present"] == 1) & (self.files["kind"] == 0))
        self.sizes = {int(file): int(self.files["size_bytes"][file]) for file in there}

    def thread(self, number: int) -> None:
        """Run one thread to its end."""
        first, count = (int(self.threads[number][key]) for key in ("first", "count"))
        for record in self.records[first : first + count]:
            self._do(record)
            self.peak_bytes = max(self.peak_bytes, sum(self.sizes.values()))

    def files_of_threads(self) -> dict[int, int]:
        """Return the lengths of all files but those that all threads append to."""
        return {file: size for file, size in self.sizes.items() if file not in self.logs}

    def _do(self, record: Any) -> None:
        name, flags = file_plan.OPERATIONS[record["operation"]], int(record["flags"])
        file, handle = int(record["file"]), int(record["handle"])
        if not flags & (file_plan.UNTIMED | file_plan.CONTINUES):
            self.steps[self.labels[record["step"]]] += 1
        if name == "create":
            assert file not in self.sizes or not flags & file_plan.EXCLUSIVE
            self.sizes.setdefault(file, 0)
        if name in ("create", "open"):
            assert file in self.sizes
            assert handle not in self.open
            self.open[handle] = (file, bool(flags & file_plan.APPEND))
            self.logs |= {file} if flags & file_plan.APPEND else set()
        elif name in ("stat", "unlink", "truncate"):
            assert file in self.sizes
            assert handle == file_plan.NONE
            self._change(name, file, int(record["length"]))
        elif name == "close":
            del self.open[handle]
        else:
            self._transfer(name, record)

    def _change(self, name: str, file: int, length: int) -> None:
        if name == "unlink":
            del self.sizes[file]
        elif name == "truncate":
            self.sizes[file] = length

    def _transfer(self, name: str, record: Any) -> None:
        file, appends = self.open[int(record["handle"])]
        if name in ("fsync", "fdatasync"):
            return
        assert file == record["file"]
        offset, length = int(record["offset"]), int(record["length"])
        assert length > 0
        if name == "read":
            assert offset < self.sizes[file] or self.sizes[file] == offset == 0
            return
        if appends:
            assert offset == file_plan.AT_POSITION
            offset = self.sizes[file]
        assert offset <= self.sizes[file]  # nothing leaves a hole
        self.sizes[file] = max(self.sizes[file], offset + length)


SMALL = {
    "ffsb": {"files": "5", "mean_size": "64KiB", "threads": "3"},
    "unzip": {"files": "60", "archive_size": "1MiB", "threads": "3", "mean_size": "8KiB"},
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


def made(path: Path, name: str, *, seed: int = 0, turns: int = 40) -> Machine:
    personality = open_personality(name, SMALL.get(name, FEW))
    write_personality(personality, path, seed=seed, turns=turns)
    return Machine(path)


def test_all_are_shipped() -> None:
    assert set(shipped()) == {*FILEBENCH, "zip", "unzip", "ffsb"}
    assert all(is_personality(name) for name in shipped())


@pytest.mark.parametrize("name", FILEBENCH)
def test_one_turn_is_one_loop_of_filebench(name: str) -> None:
    assert describe(open_personality(name, {}))["steps"] == FILEBENCH[name]


@pytest.mark.parametrize("name", TABLE_1)
def test_parameters_are_those_of_the_study(name: str) -> None:
    files, mean, read, write, width, ratio = TABLE_1[name]
    personality = open_personality(name, {})
    data = personality.file_set("data")
    assert (data.count, data.mean_bytes, data.directory_width) == (files, mean, width)
    assert personality.threads == 50
    sizes = {one.action: one.size_bytes for one in personality.flow}
    assert (sizes["read_file"], sizes["append"]) == (read, write)
    told = describe(personality)
    assert told["reads"] * ratio[1] == told["writes"] * ratio[0]


@pytest.mark.parametrize("name", [*FILEBENCH, "zip", "unzip", "ffsb"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_plan_leaves_the_files_as_they_were(tmp_path: Path, name: str, seed: int) -> None:
    machine = made(tmp_path / "plan", name, seed=seed)
    before = dict(machine.sizes)
    turns = machine.header["record_count"]
    assert turns > 0
    # WHEN its threads run one after the other, in two orders, and everything again
    for order in ((0, 1, 2), (2, 0, 1)):
        for thread in order:
            machine.thread(thread)
        # THEN no rule was broken, and in the end each file is as it was, but for a common log,
        # which the first thread cuts to its length when it has ended
        assert machine.files_of_threads() == {
            file: size for file, size in before.items() if file not in machine.logs
        }
        assert machine.open == {}
    # AND the files never took more than the plan said
    assert machine.peak_bytes <= machine.header["needed_bytes"]


@pytest.mark.parametrize("name", FILEBENCH)
def test_the_mix_of_a_plan_is_that_of_the_flow(tmp_path: Path, name: str) -> None:
    machine = made(tmp_path / "plan", name)
    for thread in range(3):
        machine.thread(thread)
    assert machine.steps == Counter({key: 120 * n for key, n in FILEBENCH[name].items()})


def test_threads_meet_no_file_of_each_other(tmp_path: Path) -> None:
    machine = made(tmp_path / "plan", "varmail")
    used = []
    for row in machine.threads:
        own = machine.records[row["first"] : row["first"] + row["count"]]
        used.append(set(own["file"].tolist()) - {0xFFFFFFFF})
    assert all(one.isdisjoint(other) for one, other in combinations(used, 2))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    plans = [
        made(tmp_path / f"{seed}{n}", "varmail", seed=seed).plan
        for seed, n in ((0, "a"), (0, "b"), (1, "a"))
    ]
    first, again, other = (plan.read_bytes() for plan in plans)
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", shipped())
def test_the_program_finds_nothing_wrong_with_a_plan(tmp_path: Path, name: str) -> None:
    # GIVEN a plan of few turns, run three times with its restoring
    personality = open_personality(name, SMALL.get(name, FEW))
    plan = tmp_path / "plan"
    write_personality(personality, plan, turns=10)
    ran = run(plan, tmp_path, "--repeat", "3")
    assert (ran.code, ran.summary["counts"]["failed"], ran.messages) == (0, 0, "")
    turns = 30 * personality.threads
    done = {step["name"]: step["done"] for step in ran.summary["steps"]}
    assert done == {key: turns * n for key, n in describe(personality)["steps"].items()}
    assert ran.summary["counts"]["cycles"] == 3


def test_sizes_follow_a_gamma_distribution() -> None:
    # Its variance is mean^2 / shape, and 100,000 sizes tell the mean to 1 %.
    files = FileSet("data", 100_000, 16_384, 1.5, 20, 0.8, is_shared=False)
    sizes = draw_sizes(files, np.random.default_rng(1))
    assert abs(sizes.mean() / 16_384 - 1) < 0.01
    assert abs(sizes.var() / (16_384**2 / 1.5) - 1) < 0.05
    assert sizes.min() >= 1


@pytest.mark.parametrize(("count", "width"), [(1, 20), (20, 20), (21, 20), (8001, 20), (100, 3)])
def test_no_directory_is_wider_than_asked(count: int, width: int) -> None:
    files = FileSet("data", count, 1, 0, width, 1, is_shared=False)
    paths = [file_path(files, number) for number in range(count)]
    assert len(set(paths)) == count
    entries: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            entries.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    assert max(len(names) for names in entries.values()) <= width


def test_too_few_files_for_the_threads(tmp_path: Path) -> None:
    personality = open_personality("varmail", {"files": "60", "threads": "50"})
    with pytest.raises(InputError, match="50 threads need at least 100 files"):
        write_personality(personality, tmp_path / "plan")


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
        (HEAD + '[[operation]]\ndo = "append"\nfiles = "a"\nsize = 3\n', "must be shared"),
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
