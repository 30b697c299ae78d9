"""Stages of a set on Spark: to the last bit what this machine finds, whatever dies meanwhile."""

import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracekit as tk
from tests.command_line import invoke
from tests.objects.server import make_bucket, server
from tests.objects.server import why_not as why_no_server
from tests.objects.stored import files as listed
from tests.objects.stored import files_here, objects
from tests.spark.cluster import ROOT, Cluster, cluster, environment, why_not
from tests.spark.demo import volumes_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
NAMES = ("web-server", "paging", "log-structured")
STAGES = ("classify", "analyze", "recommend")
TIMEOUT_S = 300
WAITING = re.compile("tracekit: waiting for a free worker of .*\n")
"""Said where this machine is so busy that no worker is ready in time."""


def make_set(place: Path, requests: int = 500) -> Path:
    for number, name in enumerate(NAMES):
        tk.generate(name, place / name, requests=requests * (number + 1))
    return tk.add_to_set(place / "set", *(place / name for name in NAMES)).path


def on_spark(
    *words: str | Path, master: str = "local[2]", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `tracekit WORDS` on Spark."""
    more = ("--engine", "spark", "--master", master)
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", *map(str, words), *more],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    done.stderr = WAITING.sub("", done.stderr)
    return done


def files(place: Path) -> dict[str, bytes]:
    """Return the content of all files of a set; Spark's own messages are none of its results."""
    found = (path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): path.read_bytes() for path in found} | {"spark.log": b""}


def left_by(place: Path) -> list[Path]:
    """Return what is not finished in a set."""
    return [path for path in place.rglob(".*") if ".tracekit-" in path.name]


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL of a bucket."""
    if why := why_no_server():
        pytest.skip(why)
    with server(tmp_path) as running:
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        yield make_bucket("traces")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return make_set(tmp_path)


def test_a_cluster_finds_what_this_machine_finds(two_workers: Cluster, tmp_path: Path) -> None:
    # GIVEN two equal sets, WHEN one is worked on here and the other by a cluster of two workers
    here = make_set(tmp_path / "here")
    there = make_set(tmp_path / "there")
    for stage in STAGES:
        getattr(tk.open_set(here), stage)()
        done = on_spark(stage, there, master=two_workers.master)
        # THEN all that is printed is the answer
        assert done.returncode == 0, done.stderr
        assert f"{stage}: 3 volumes done" in done.stdout
        assert done.stderr == ""
    # AND caches and tiers are simulated
    for name in ("cache", "tiers"):
        simulated = getattr(tk.open_set(here).simulate, name)()
        done = on_spark("simulate", name, there, master=two_workers.master)
        assert (done.returncode, done.stdout) == (0, f"{simulated.text}\n"), done.stderr
    # THEN all files are the same, to the last bit, and both workers had a part
    assert files(there) == files(here)
    assert len(files(here)) > 100
    applications = [*two_workers.folder.glob("worker-*/app-*/*")]
    assert {path.parent.parent.name for path in applications} == {"worker-1", "worker-2"}
    # WHEN it is asked again, THEN nothing is done, for which no Spark starts
    (there / "spark.log").unlink()
    again = on_spark("classify", there, master=two_workers.master)
    assert again.stdout == "classify: 0 volumes done, 3 up to date\n"
    assert not (there / "spark.log").exists()


def test_a_task_that_is_done_again_leaves_what_one_leaves(
    two_workers: Cluster, tmp_path: Path
) -> None:
    # GIVEN workers that are killed when they have done a volume, before they can report it
    here = make_set(tmp_path / "here")
    there = make_set(tmp_path / "there")
    tk.open_set(here).classify()
    outcome = works("dies_once", there, two_workers.master)
    # THEN Spark had each done again, and the tables have the rows of one time
    assert outcome == {"done": sorted(NAMES), "errors": {}}
    marks = [there / f"died-{name}" for name in NAMES]
    for mark in marks:
        mark.unlink()
    tables = {name: text for name, text in files(there).items() if name.endswith(".parquet")}
    assert tables == {name: text for name, text in files(here).items() if name in tables}
    assert {f"{name}/blocks.parquet" for name in NAMES} < {*tables}


def test_a_set_in_object_storage_needs_no_shared_folder(
    two_workers: Cluster, s3: str, tmp_path: Path
) -> None:
    # GIVEN a set on this machine, and a copy of it in object storage
    here = make_set(tmp_path / "here")
    url = f"{s3}/set"
    tk.add_to_set(url, *(here / name for name in NAMES))
    secrets = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    given = " ".join(f"--conf spark.executorEnv.{name}={os.environ[name]}" for name in secrets)
    words = ("--engine", "spark", "--master", two_workers.master)
    for stage in STAGES:
        getattr(tk.open_set(here), stage)()
        # WHEN the workers, which see no folder of the set, do the stages
        done = subprocess.run(
            [sys.executable, "-m", "tracekit", stage, url, *words],
            env=environment(PYSPARK_SUBMIT_ARGS=f"{given} pyspark-shell"),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        assert f"{stage}: 3 volumes done" in done.stdout
    # THEN all files are the same, to the last bit, and the log is where the command ran
    for name in NAMES:
        assert listed(f"{url}/{name}") == files_here(here / name)
    assert objects(url)["placement.json"] == (here / "placement.json").read_bytes()
    assert (tmp_path / "spark.log").is_file()


def works(name: str, place: Path, master: str) -> object:
    path = os.pathsep.join([str(ROOT), environment()["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.works", name, str(place), master],
        env={**environment(), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_volume_that_kills_its_worker_each_time_is_left_out(
    two_workers: Cluster, made: Path
) -> None:
    outcome = works("dies_always", made, two_workers.master)
    assert outcome == {
        "done": ["log-structured", "web-server"],
        "errors": {"paging": "the worker that worked on it was killed, each time"},
    }


def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    # GIVEN a cluster whose two workers are in the midst of volumes
    here = make_set(tmp_path / "here", 20_000)
    there = make_set(tmp_path / "there", 20_000)
    for place in (here, there):
        tk.open_set(place).classify()
    tk.open_set(here).analyze()
    with cluster(tmp_path) as made:
        running = started("analyze", there, "--engine", "spark", "--master", made.master)
        wait_until(lambda: len(left_by(there)) > 1, running)
        # WHEN one is killed, with all that it runs
        os.killpg(made.workers[0].pid, signal.SIGKILL)
        talk, errors = running.communicate(timeout=TIMEOUT_S)
    # THEN the other has done all, and the files are those of a run without a fault
    assert talk == "analyze: 3 volumes done\n", errors
    assert re.search("Lost executor|Lost task", (there / "spark.log").read_text())
    assert files(there) == files(here)
    assert left_by(tmp_path) == []


def wait_until(is_so: object, running: subprocess.Popen[str]) -> None:
    """Wait until a function says yes, while a program runs."""
    assert callable(is_so)
    end_s = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_a_volume_that_is_damaged_is_left_out(made: Path) -> None:
    # GIVEN a table with a hole, which is seen where it is read, and a volume that is no trace
    table = made / "paging" / "requests.parquet"
    content = bytearray(table.read_bytes())
    table.unlink()
    content[200:-2000] = bytes(len(content) - 2200)
    table.write_bytes(content)
    (made / "web-server" / "trace.json").unlink()
    # THEN both are named, the other is done, and the exit code says so
    done = on_spark("classify", made)
    assert done.returncode == 3
    assert done.stdout == "classify: 1 volume done, 2 left out\n"
    assert (made / "log-structured" / "blocks.parquet").exists()
    # AND all that is said of them is what is said where no Spark is used
    here = invoke("classify", made)
    assert done.stderr.splitlines()[:2] == here.stderr.splitlines()
    assert done.stderr.splitlines()[2] == f"tracekit: {here.exception}"


def test_no_worker_without_the_package_is_met_by_a_stack(two_workers: Cluster, made: Path) -> None:
    # GIVEN workers whose Python has no tracekit
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made / "bare"], check=True)
    bare = str(made / "bare" / "bin" / "python")
    for master in (two_workers.master, "local[2]"):
        done = on_spark("classify", made, master=master, PYSPARK_PYTHON=bare)
        assert (done.returncode, done.stdout) == (1, "")
        said, hint = done.stderr.splitlines()
        assert said == "tracekit: a worker has no tracekit"
        assert "PYSPARK_PYTHON" in hint
    done = on_spark("classify", made, PYSPARK_PYTHON="/nowhere/python")
    assert done.stderr.splitlines()[0] == "tracekit: a worker has no program /nowhere/python"


def test_what_is_missing_is_one_line(made: Path, tmp_path: Path) -> None:
    def said(master: str = "local[2]", **variables: str) -> str:
        begin_s = time.monotonic()
        done = on_spark("classify", made, master=master, **variables)
        assert time.monotonic() - begin_s < 60
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        line, hint = done.stderr.splitlines()
        assert hint.startswith("  ")
        return line.removeprefix("tracekit: ")

    assert said(JAVA_HOME="/nowhere").startswith("JAVA_HOME is /nowhere, where there is no bin")
    assert said(JAVA_HOME="", PATH=str(tmp_path)) == "there is no Java: Spark needs Java 17"
    assert said(PYTHONPATH="") == "there is no PySpark"
    assert said(SPARK_HOME="/nowhere").startswith("SPARK_HOME is /nowhere, which is no Spark 4.")
    old = tmp_path / "java" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_412\"' >&2\n")
    old.chmod(0o755)
    assert said(JAVA_HOME=str(old.parent.parent)) == f"{old} is 1.8.0_412: Spark needs Java 17"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    assert said(f"spark://{address}") == f"no Spark master answers at {address}: Connection refused"
    assert said("sparkle") == "--master sparkle: this is no master of Spark"
    # Java's own complaint, without its stack, and the file that has all of it
    assert said("yarn").startswith("Spark does not start: When running with master 'yarn' either")
    assert (made / "spark.log").is_file()


def java_of(pid: int) -> list[int]:
    """Return the processes of Java that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            name = (path / "comm").read_text().strip()
        except OSError:
            continue
        if parent == pid and name == "java":
            found.append(int(path.name))
    return found


def started(*words: str | Path) -> subprocess.Popen[str]:
    """Start `tracekit WORDS`."""
    return subprocess.Popen(
        [sys.executable, "-m", "tracekit", *map(str, words)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("when", ["starting", "working"])
def test_ctrl_c_ends_it_in_seconds(tmp_path: Path, when: str) -> None:
    # GIVEN a stage on Spark, at its start or in the midst of volumes
    made = make_set(tmp_path, 100_000)
    running = started("classify", made, "--engine", "spark")
    wait_until(lambda: java_of(running.pid) and (when == "starting" or left_by(made)), running)
    (java,) = java_of(running.pid)
    # WHEN Ctrl-C comes
    running.send_signal(signal.SIGINT)
    begin_s = time.monotonic()
    talk, errors = running.communicate(timeout=60)
    # THEN it ends soon, quietly, and its Java with it
    assert (running.returncode, talk, errors) == (130, "", "")
    assert time.monotonic() - begin_s < 20
    with pytest.raises(FileNotFoundError):
        (Path("/proc") / str(java) / "exe").readlink()
    # AND what was half done is gone, or soon
    end_s = time.monotonic() + 30
    while left_by(made):
        assert time.monotonic() < end_s
        time.sleep(0.1)
    # AND the next run finds nothing in its way
    shutil.rmtree(made / "paging")
    done = on_spark("classify", made)
    assert done.stdout == "classify: 2 volumes done, 1 left out\n", done.stderr


def test_a_java_that_is_killed_is_one_line(tmp_path: Path) -> None:
    made = make_set(tmp_path, 100_000)
    running = started("classify", made, "--engine", "spark")
    wait_until(lambda: left_by(made), running)
    (java,) = java_of(running.pid)
    os.kill(java, signal.SIGKILL)
    talk, errors = running.communicate(timeout=60)
    assert (running.returncode, talk) == (1, "")
    assert errors.splitlines() == [
        "tracekit: Spark's Java, where this runs, has ended",
        f"  all that Spark printed is in {made / 'spark.log'}",
    ]


IMPORT = ("--format", "alibaba", "--split-by", "volume")


def test_a_cluster_imports_what_this_machine_imports(two_workers: Cluster, tmp_path: Path) -> None:
    # GIVEN a text of several parts, WHEN it is imported here and by a cluster
    source = volumes_file(tmp_path, 1_200_000)
    here, there = tmp_path / "here", tmp_path / "there"
    made = invoke("import", source, *IMPORT, "-o", here)
    done = on_spark("import", source, *IMPORT, "-o", there, master=two_workers.master)
    # THEN the same is said, and all files are the same, to the last bit
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == (made.stdout, made.stderr)
    assert files(there) == files(here) | {"spark.log": b""}
    assert len([*here.glob("*/requests.parquet")]) == 24
    assert left_by(tmp_path) == []


@pytest.mark.parametrize("when", ["decoding", "joining"])
def test_an_import_whose_worker_is_killed_changes_nothing(tmp_path: Path, when: str) -> None:
    source = volumes_file(tmp_path, 1_200_000)
    here, there = tmp_path / "here", tmp_path / "there"
    invoke("import", source, *IMPORT, "-o", here)
    kind = {"decoding": "tmp*", "joining": "tmp*/.group.tracekit-*"}[when]
    with cluster(tmp_path) as made:
        running = started(
            "import", source, *IMPORT, "-o", there, "--engine", "spark", "--master", made.master
        )
        wait_until(
            lambda: any(tmp_path.glob(f".there.tracekit-*/.whole.tracekit-*/{kind}")), running
        )
        # WHEN one of two workers is killed, with all that it runs
        os.killpg(made.workers[0].pid, signal.SIGKILL)
        talk, errors = running.communicate(timeout=TIMEOUT_S)
    # THEN the other has done all, and no row is there twice
    assert running.returncode == 0, errors
    assert "1,200,000 requests" in talk
    assert files(there) == files(here) | {"spark.log": b""}
    assert left_by(tmp_path) == []


def test_an_import_that_fails_or_is_ended_leaves_nothing(tmp_path: Path) -> None:
    # GIVEN a compressed file that is damaged, THEN it is named as on one machine
    source = volumes_file(tmp_path, 100_000)
    packed = bytearray(gzip.compress(source.read_bytes()))
    packed[len(packed) // 2] ^= 255
    damaged = tmp_path / "volumes.csv.gz"
    damaged.write_bytes(packed)
    there = tmp_path / "there"
    done = on_spark("import", damaged, *IMPORT, "-o", there)
    here = invoke("import", damaged, *IMPORT, "-o", there)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == f"tracekit: {here.exception}"
    assert str(damaged) in done.stderr
    # AND what Spark printed is beside the set that there is not, where Spark is what fails
    done = on_spark("import", source, *IMPORT, "-o", there, PYSPARK_PYTHON="/nowhere/python")
    assert done.stderr.splitlines()[0] == "tracekit: a worker has no program /nowhere/python"
    done = on_spark("import", source, *IMPORT, "-o", there, master="yarn")
    assert done.stderr.splitlines()[1] == f"  all that it printed is in {there}.spark.log"
    (tmp_path / "there.spark.log").unlink()
    # AND Ctrl-C in the midst of tasks leaves nothing
    source = volumes_file(tmp_path, 1_200_000)
    running = started("import", source, *IMPORT, "-o", there, "--engine", "spark")
    wait_until(lambda: any(tmp_path.glob(".there.tracekit-*/.whole*/tmp*")), running)
    running.send_signal(signal.SIGINT)
    talk, errors = running.communicate(timeout=60)
    assert (running.returncode, talk, errors) == (130, "", "")
    end_s = time.monotonic() + 30
    while {*tmp_path.iterdir()} != {source, damaged}:
        assert time.monotonic() < end_s, [*tmp_path.iterdir()]
        time.sleep(0.1)
