"""Files of filebench's language: what they mean, what is refused, and what a run of them does.

Expected values are those of filebench 1.5-alpha3, whose sources say which file is next.
"""

import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import invoke, succeed
from tests.replay_files.program import KEPT, Ran, run
from tests.traces import written
from tracekit.errors import InputError, UsageError
from tracekit.plans import file_plan, flow_plan
from tracekit.sweep.grid import Axis, Target, Timing, plan_runs
from tracekit.workload.file_plan import _Writer, write_personality
from tracekit.workload.filebench import read_filebench
from tracekit.workload.flow import Loop, Operation, Personality, operations
from tracekit.workload.random_values import RandomValue

FILES = "define fileset name=a,path=/tmp,entries=10,size=1k,dirwidth=20,dirgamma=0,prealloc\n"


def process(*flowops: str, threads: int = 1) -> str:
    lines = "\n".join(f"  flowop {one}" for one in flowops)
    return f"define process name=p {{ thread name=t,instances={threads} {{\n{lines}\n}} }}\n"


def read(tmp_path: Path, text: str, **settings: str) -> Personality:
    return read_filebench(written(tmp_path / "own.f", text), settings)


def play(tmp_path: Path, text: str, *words: str, seconds: float = 20) -> Ran:
    """Run a file until it ends or for so long, and keep its files."""
    write_personality(read(tmp_path, text), tmp_path / "plan")
    duration_ns = str(round(seconds * 1e9))
    words = ("--repeat", "0", "--duration-ns", duration_ns, "--keep", *words)
    return run(tmp_path / "plan", tmp_path, *words)


def left(tmp_path: Path, name: str = "a") -> dict[str, int]:
    """Return the sizes of the files of a set by their names, which are numbers from 1."""
    found = (tmp_path / KEPT / name).rglob("*")
    return {str(int(one.name)): one.stat().st_size for one in found if one.is_file()}


def done(ran: Ran) -> dict[str, int]:
    return {step["name"]: step["done"] for step in ran.summary["steps"]}


VALUES = """# every way to write a value
set $n = 4  set $size=16k set $big=2m
set $twice=$n * $size
set $name="a b"
set $on=true
set mode quit firstdone
define file name=f,path=/x,size=$big
eventgen rate=$n
define process name=p,instances=2
{
  thread name=t,memsize=10m,instances=$n {
    flowop read name=r,filename=f,iosize=$twice,random,dsync=$on,directio=0,workingset=${big},
        iters=3
    flowop finishoncount name=end,value=$n,target=r
  }
}
echo "said $name"
run 7
quit
"""


def test_values_of_all_kinds(tmp_path: Path) -> None:
    found = read(tmp_path, VALUES)
    (group,) = found.groups
    first, last = group.flow
    assert isinstance(first, Operation)
    assert isinstance(last, Operation)
    assert (first.size, first.working_set, first.iters) == (4 << 14, 2 << 20, 3)
    assert (first.is_random, first.is_sync, first.is_direct) == (True, True, False)
    assert (last.kind, last.value, last.target) == ("finishoncount", 4, "r")
    assert (found.threads, found.end, found.events_per_second, found.seconds) == (
        8,
        "firstdone",
        4,
        7,
    )
    # AND words without effect are counted, as is what stands behind run
    assert found.not_used == (
        "1 x commands behind run (a run ends there)",
        "1 x echo (only printed)",
        "1 x memsize (calls use buffers of the program)",
        "1 x path (it is below --target)",
    )


def test_variables_take_their_last_value_and_options_win(tmp_path: Path) -> None:
    # GIVEN a variable that is set after its use, as old files are run
    text = f"set $n=1\n{FILES}{process('statfile name=s,filesetname=a')}"
    text = text.replace("entries=10", "entries=$nfiles").replace("instances=1", "instances=$n")
    with pytest.raises(InputError, match=r"own.f, line 2: the variable \$nfiles is never set"):
        read(tmp_path, text)
    text = f"set $nfiles=3\n{text}set $n=5\nset $nfiles=7\n"
    found = read(tmp_path, text)
    assert (found.threads, found.file_sets[0].count) == (5, 7)
    assert found.parameters == {"files": 7, "nfiles": 7, "n": 5}
    assert read(tmp_path, text, files="9", n="2").file_sets[0].count == 9
    with pytest.raises(UsageError, match="sets no variable 'nfile'"):
        read(tmp_path, text, nfile="9")


def test_values_of_options_and_marks_of_editors(tmp_path: Path) -> None:
    text = "\ufeffset $n=1\n" + FILES + STAT.replace("instances=1", "instances=$n")
    assert read(tmp_path, text, n="1k").threads == 1024
    for value, words in (("1kk", "'1kk' is not a size"), ("9" * 50, "beyond 2^63")):
        with pytest.raises(UsageError, match=re.escape(words)):
            read(tmp_path, text, n=value)
    with pytest.raises(InputError, match=r"own.f, line 3: no process has threads"):
        read(tmp_path, text, n="0")


def test_flowops_within_flowops_take_variables(tmp_path: Path) -> None:
    text = (
        f"{FILES}define flowop name=inner, $set, $times=2 {{\n"
        "  flowop openfile name=o,filesetname=$set,fd=1\n  flowop closefile name=c,fd=1 }\n"
        "define flowop name=outer, $which {\n  flowop inner name=i,iters=$count,$set=$which }\n"
        + process("outer name=x,iters=4,$which=a")
    )
    with pytest.raises(InputError, match=r"line 6: the variable \$count is never set"):
        read(tmp_path, text)
    (group,) = read(tmp_path, f"set $count=3\n{text}").groups
    outer = group.flow[0]
    assert isinstance(outer, Loop)
    inner = outer.body[0]
    assert isinstance(inner, Loop)
    assert (outer.iters, inner.iters) == (4, 3)
    assert [(one.label, one.files) for one in operations(group.flow)] == [
        ("x.i.o", "a"),
        ("x.i.c", None),
    ]


@pytest.mark.parametrize(
    ("text", "mean", "least", "most"),
    [
        ("cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)", 16384, 0, None),
        ("cvar(type=cvar-uniform,parameters=lower:4096;upper:8192,round=512)", 6144, 4096, 8192),
        ("cvar(type=cvar-exponential,parameters=mean:1000,min=100,max=3000)", None, 100, 3000),
        ("randvar(type=gamma,min=1k,mean=5632,gamma=1500)", 5632, 1024, None),
        ("randvar(type=uniform,min=1000,mean=3000)", 3000, 1000, 5000),
        (
            "randvar(type=tabular,min=1k,randtable={{80,1k,4k},{15,4k,16k},{5,16k,64k}})",
            5632,
            1024,
            65536,
        ),
        # A table whose minimum is not `min` is stretched from there to the mean.
        ("randvar(type=tabular,min=0,mean=200,randtable={{50,100,200},{50,200,300}})", 200, 0, 400),
    ],
)
def test_random_variables(
    tmp_path: Path, text: str, mean: float | None, least: int, most: int | None
) -> None:
    found = read(tmp_path, f"set $s={text}\n{FILES.replace('size=1k', 'size=$s')}" + STAT)
    size = found.file_sets[0].size
    assert isinstance(size, RandomValue)
    table = size.table(16384)
    assert mean is None or abs(table.mean() / mean - 1) < 0.01
    assert least <= table.min() <= least + 64
    assert most is None or most * 0.98 <= table.max() <= most


STAT = process("statfile name=s,filesetname=a")


MULTIPLY = "define flowop name=c0 { flowop opslimit }\n" + "".join(
    f"define flowop name=c{n} {{ {f'flowop c{n - 1} ' * 4} }}\n" for n in range(1, 11)
)


def one(flowop: str) -> str:
    return FILES + process(flowop)


def drawn(family: str, parameters: str) -> str:
    return f"set $s=cvar(type=cvar-{family},parameters={parameters})\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FILES + "flowp read\n", "line 2: 'flowp' is not expected here expected is one of:"),
        (one("raed name=r"), "line 3: there is no flowop 'raed' did you mean read"),
        (one("read name=r,iosiz=2k"), "takes no 'iosiz' did you mean iosize"),
        (one("read name=r,filename=b,iosize=2k"), "no file or fileset 'b' is defined there are a"),
        (one("read name=r,filename=a"), "read has no iosize"),
        (one("read name=r,filename=a,random,iosize=2k"), "calls of 2,048 bytes at random places"),
        (one("read name=r,filename=a,iosize=1000,directio"), "directio with calls of 1,000 bytes"),
        (one("closefile name=c,fd=3"), "fd 3 is not open there"),
        (one("openfile name=o,filesetname=a,fd=3"), "opens fd 3, which is open there"),
        (one("sempost name=s,target=w"), "its target 'w' is not a semblock"),
        (one("openfile name=o,fd=1"), "openfile needs filesetname"),
        (FILES + 'system "rm -r /"\n' + STAT, "'system' is not run: it goes beyond this run"),
        (FILES + STAT.replace("name=t", "name=t,ioprio=3"), "ioprio is not run"),
        (FILES.replace("prealloc", "dirdepthrv=$x") + STAT, "'dirdepthrv' is not run"),
        (FILES + "quit\n" + STAT, "line 2: it quits before it runs"),
        (FILES, "it defines no process"),
        (FILES.replace("entries=10", "entries=0") + STAT, "neither entries nor leafdirs"),
        (FILES + FILES + STAT, "the file set a is defined twice"),
        ("set mode quit never\n" + FILES + STAT, "there is no mode 'never'"),
        ("set $s=randvar(type=tabular,randtable={{90,1,2}})\n", "are 90%, not 100%"),
        ("set $s=cvar(type=cvar-zipf)\n", "there is no distribution 'zipf'"),
        (FILES + STAT.replace("}", ""), "ends within a command"),
        (FILES + STAT.replace("=1", "=0"), "line 2: no process has threads"),
        (FILES + STAT.replace("=1", "=1.5"), "line 2: instances of a thread is 1.5, not a whole"),
        (FILES + STAT + "run 0.5\n", "line 5: run for 0.5 seconds"),
        (one("sempost name=s"), "flowop s: has no target name a semblock"),
        (FILES.replace("1k", "1000000000g") + STAT, "size: 10 files of about 1,073,741,824,000"),
        (f"set $n={'9' * 5000}\n", "line 1: the number 9999"),
        (f"set $n={'9' * 400}.0\n", "line 1: the number 9999"),
        ("set $n=8000000000g\nset $m=$n*2\n", "line 2: the number 1.71799e+19 is beyond 2^63"),
        (drawn("normal", "mean:nan"), "line 1: 'mean' of normal is nan"),
        (drawn("gamma", "mean:inf"), "line 1: 'mean' of gamma is inf"),
        (drawn("lognormal", "scale:900"), "line 1: 'scale' of lognormal is 900"),
        (drawn("triangular", "mode:5"), "line 1: 'mode' of triangular is 5"),
        (
            drawn("normal", "mean:1") + FILES.replace("=a", "=$s") + STAT,
            "name of a fileset is drawn",
        ),
        (MULTIPLY + FILES + process("c10"), "more than 100,000 flowops"),
    ],
)
def test_what_is_refused_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert words in f"{error.value} {error.value.hint}"
    assert "own.f" in str(error.value)


TOUCH = (
    "openfile name=o,filesetname=a,fd=1",
    "appendfile name=w,fd=1,iosize=1",
    "closefile name=c,fd=1",
)


def test_all_threads_take_files_in_order_from_one_rotor(tmp_path: Path) -> None:
    # GIVEN three threads that each open two files and write a byte to them
    text = FILES.replace("entries=10", "entries=10,readonly=false") + "set mode quit alldone\n"
    flowops = (*TOUCH, "finishoncount name=end,value=2,target=c")
    ran = play(tmp_path, text + process(*flowops, threads=3))
    # THEN the first six files have one each
    assert (ran.code, ran.summary["ended_by"], done(ran)) == (0, "plan", {"o": 6, "w": 6, "c": 6})
    sizes = left(tmp_path)
    assert sizes == {str(n): 1025 if n <= 6 else 1024 for n in range(1, 11)}


def test_creates_and_deletes_have_rotors_of_their_own(tmp_path: Path) -> None:
    # GIVEN files of which half are there
    half = FILES.replace("prealloc", "prealloc=50") + "set mode quit firstdone\n"
    create = ("createfile name=n,filesetname=a,fd=1", "closefile name=c,fd=1")
    before = set(written_files(tmp_path / "before", half + STAT))
    # WHEN two are deleted, and three made
    more: tuple[str, ...] = (
        "deletefile name=d,filesetname=a,iters=2",
        *create * 3,
        "finishoncount name=e,value=1",
    )
    more = tuple(
        one.replace("name=n", f"name=n{i}").replace("name=c", f"name=c{i}")
        for i, one in enumerate(more)
    )
    assert play(tmp_path, half + process(*more)).code == 0
    # THEN the first two that were there are gone, and the first three that were not are there
    there = sorted(before, key=int)
    missing = [str(n) for n in range(1, 11) if str(n) not in before or str(n) in there[:2]]
    assert set(left(tmp_path)) == before - set(there[:2]) | set(sorted(missing, key=int)[:3])


def written_files(place: Path, text: str) -> Sequence[str]:
    place.mkdir()
    play(place, text, seconds=0.05)
    return list(left(place))


def test_an_open_file_is_not_deleted(tmp_path: Path) -> None:
    # GIVEN one file, open as descriptor 1
    text = FILES.replace("entries=10", "entries=1") + process(
        "openfile name=o,filesetname=a,fd=1",
        "deletefile name=d,filesetname=a",
        "closefile name=c,fd=1",
        "finishoncount name=e,value=10",
    )
    ran = play(tmp_path, text)
    # THEN deletes do nothing and are not counted, as filebench does
    assert done(ran) == {"o": 5, "c": 5}
    assert left(tmp_path) == {"1": 1024}


@pytest.mark.parametrize(
    ("mode", "code", "end"), [("timeout", 3, "files"), ("firstdone", 0, "plan")]
)
def test_a_thread_that_finds_no_file(tmp_path: Path, mode: str, code: int, end: str) -> None:
    text = f"set mode quit {mode}\n{FILES}" + process("deletefile name=gone,filesetname=a")
    ran = play(tmp_path, text)
    assert (ran.code, ran.summary["ended_by"], done(ran)) == (code, end, {"gone": 10})
    assert left(tmp_path) == {}
    assert ("the operation gone found no file to use: none is there" in ran.messages) == (code == 3)


def test_whole_files_are_written_in_whole_calls(tmp_path: Path) -> None:
    # GIVEN files of 2.5 calls: filebench writes a third whole one
    text = "set mode quit firstdone\n" + FILES.replace("size=1k,", "size=2560,").replace(
        "prealloc", "prealloc=0"
    )
    text += process(
        "createfile name=n,filesetname=a,fd=1",
        "writewholefile name=w,fd=1,srcfd=1,iosize=1k",
        "closefile name=c,fd=1",
    )
    ran = play(tmp_path, text)
    assert left(tmp_path) == dict.fromkeys(map(str, range(1, 11)), 3072)
    assert ran.of("w", key="steps")["bytes"] == 30720
    assert ran.of("write")["done"] == 30


ZERO_OR_4K = "set $s=randvar(type=tabular,min=0,randtable={{50,4k,4k},{50,0,0}})\n"


@pytest.mark.parametrize("kind", ["readwholefile", "writewholefile"])
@pytest.mark.parametrize("longest", [None, 4096])
def test_no_call_is_longer_than_the_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, longest: int | None
) -> None:
    size = 1 << 20
    # GIVEN calls of 4 KiB or of the whole file, in a plan that does or does not allow for these
    text = ZERO_OR_4K + FILES.replace("size=1k", f"size={size}")
    text += process(
        "openfile name=o,filesetname=a,fd=1",
        f"{kind} name=w,fd=1,srcfd=1,iosize=$s",
        "closefile name=c,fd=1",
        "finishoncount name=e,value=20,target=w",
    )
    if longest:
        monkeypatch.setattr(_Writer, "_longest", lambda *_: longest)
    ran = play(tmp_path, text)
    # THEN each operation moves a whole file all the same
    header = np.frombuffer((tmp_path / "plan").read_bytes(), file_plan.HEADER, 1)[0]
    assert (ran.code, header["max_transfer_bytes"]) == (0, longest or size)
    assert (done(ran)["w"], ran.of("w", key="steps")["bytes"]) == (20, 20 * size)


@pytest.mark.parametrize(
    "flowop", ["hog name=h,value=20000000000", "delay name=d,value=36893488148"]
)
def test_the_end_of_a_run_is_obeyed_within_an_operation(tmp_path: Path, flowop: str) -> None:
    ran = play(tmp_path, FILES + process("statfile name=s,filesetname=a", flowop), seconds=0.2)
    assert (ran.summary["ended_by"], done(ran)) == ("time", {"s": 1})


def test_reads_go_on_where_they_ended_and_begin_again(tmp_path: Path) -> None:
    # GIVEN a file of 2.5 reads: 1024, 1024, 512, and nothing, which turns to its start
    text = FILES.replace("entries=10,size=1k", "entries=1,size=2560")
    text += process("read name=r,filename=a,iosize=1k", "finishoncount name=e,value=9,target=r")
    ran = play(tmp_path, text)
    # THEN the open, which counts as one read of nothing, and eight reads
    assert ran.of("r", key="steps")["bytes"] == 2 * 2560
    assert done(ran) == {"r": 9}


def test_the_rate_of_events_limits(tmp_path: Path) -> None:
    # GIVEN 1,000 events a second and two threads that need one for each turn
    text = (
        "eventgen rate=1000\n"
        + FILES
        + process("statfile name=s,filesetname=a", "eventlimit name=l", threads=2)
    )
    ran = play(tmp_path, text, seconds=0.5)
    # THEN half a second has 500, and each thread one before its first
    assert 400 <= done(ran)["s"] <= 502


def test_limits_go_by_the_operations_of_their_target(tmp_path: Path) -> None:
    # GIVEN 100 events a second, each of which pays for a read, of three before each limit
    text = (
        "eventgen rate=100\n"
        + FILES
        + process("read name=r,filename=a,iosize=512,iters=3", "iopslimit name=l,target=r")
    )
    assert 40 <= done(play(tmp_path, text, seconds=0.5))["r"] <= 60


def test_semaphores_and_wakes_let_threads_take_turns(tmp_path: Path) -> None:
    # GIVEN a thread that waits for two posts each time, and one that posts one and may be two ahead
    text = FILES + (
        "define process name=p {\n thread name=one {\n"
        "  flowop semblock name=wait,value=2,highwater=2\n"
        "  flowop statfile name=woken,filesetname=a }\n"
        " thread name=two {\n  flowop statfile name=posts,filesetname=a\n"
        "  flowop sempost name=post,target=wait,value=1,blocking } }\n"
    )
    found = done(play(tmp_path, text, seconds=0.5))
    assert found["woken"] > 10
    assert 0 <= found["posts"] - 2 * found["woken"] <= 5


def test_directories_are_made_listed_and_removed(tmp_path: Path) -> None:
    text = "set mode quit firstdone\n" + FILES.replace("entries=10", "leafdirs=6").replace(
        "prealloc", "prealloc=50"
    )
    ran = play(
        tmp_path, text + process("makedir name=m,filesetname=a", "listdir name=l,filesetname=a")
    )
    assert done(ran) == {"m": 3, "l": 3}
    ran = play(tmp_path, text + process("removedir name=r,filesetname=a"), "--replace")
    assert (ran.code, done(ran)) == (0, {"r": 3})


def test_runs_last_as_their_variables_say(tmp_path: Path) -> None:
    text = FILES + "set $runtime=6\n" + STAT
    file = written(tmp_path / "own.f", text + "run $runtime\n")
    planned = plan_runs(
        [str(file), "varmail"],
        [Target("here", tmp_path)],
        vary={"runtime": Axis(("2", "3"), "--vary runtime")},
        timing=Timing(1),
        repeats=1,
        lasts_as_said=True,
    )
    lasts = {(run.settings.get("runtime"), run.timing.duration_ns) for run in planned}
    assert lasts == {("2", 2 * 10**9), ("3", 3 * 10**9), (None, 60 * 10**9)}


def test_bench_runs_a_file_as_long_as_it_says(tmp_path: Path) -> None:
    file = written(tmp_path / "own.f", FILES + "set $nthreads=1\n" + STAT + "run 1\n")
    words = ("-o", tmp_path / "out", "--target", tmp_path, "--no-report")
    told = succeed("bench", file, *words).stdout
    assert "own on" in told
    assert "own: no effect here: 1 x path (it is below --target)" in told
    # AND a file that is used up is an error that says so
    gone = written(tmp_path / "gone.f", FILES + process("deletefile name=d,filesetname=a"))
    result = invoke("bench", gone, *words, "--duration", "1s")
    assert "the operation d found no file to use: none is there" in str(result.exception)


def test_sizes_and_offsets_that_are_drawn_follow_their_variable(tmp_path: Path) -> None:
    # GIVEN appends of a size that is 1 or 3 KiB, and random ones below 2 KiB
    text = "set $s=randvar(type=tabular,min=1k,randtable={{50,3k,3k},{50,1k,1k}})\n"
    text += FILES + process(
        "appendfile name=w,filename=a,iosize=$s,iters=1000",
        "appendfilerand name=x,filename=a,iosize=2k,iters=1000",
        "finishoncount name=e,value=2000",
    )
    ran = play(tmp_path, text)
    mean = {name: ran.of(name, key="steps")["bytes"] / done(ran)[name] for name in "wx"}
    assert np.isclose(mean["w"], 2048, rtol=0.1)
    assert np.isclose(mean["x"], 1023.5, rtol=0.1)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("kind", 99, "has an unknown kind"),
        ("kind", 2, "has a record of another operation"),
        ("fd", 5, "names a descriptor that its thread does not have"),
        ("set", 7, "needs a set of files that the flow has"),
        ("link", 40, "has a link to what cannot be its target"),
        ("iters_table", 3, "has an absurd value"),
        ("size", 1 << 30, "has calls longer than the longest transfer"),
    ],
)
def test_a_plan_with_a_wrong_flow_is_refused(
    tmp_path: Path, field: str, value: int, words: str
) -> None:
    # GIVEN a plan whose checksums are right, and one number of its first operation is not
    flowops = ("read name=r,filename=a,iosize=512", "wakeup name=w,target=b", "block name=b")
    write_personality(read(tmp_path, FILES + process(*flowops)), tmp_path / "plan")
    data = bytearray((tmp_path / "plan").read_bytes())
    header = np.frombuffer(data, file_plan.HEADER, 1)[0]
    kinds = {"thread": file_plan.THREAD, "step": file_plan.STEP, "file": file_plan.FILE}
    tables = file_plan.HEADER.itemsize + int(header["record_count"]) * file_plan.RECORD.itemsize
    sizes = (int(header[f"{name}_count"]) * kind.itemsize for name, kind in kinds.items())
    first = tables + sum(sizes) + flow_plan.HEADER.itemsize
    op = np.frombuffer(data, flow_plan.OP, 2, first)[1]
    op[field] = value
    header["tables_crc32"] = zlib.crc32(data[tables:])
    header["header_crc32"] = zlib.crc32(header.tobytes()[:-4])
    (tmp_path / "plan").write_bytes(data)
    # THEN nothing is run
    ran = run(tmp_path / "plan", tmp_path, "--repeat", "0", "--duration-ns", "1000")
    assert ran.code == 1
    assert words in ran.messages
