"""What doctor says about a machine, and when it fails."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit.doctor import GROUPS, Check, Finding, Group, core_works, examine, polled_devices
from tracekit.errors import TracekitError


def run_doctor(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tracekit", "doctor", *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def group_of(probe_finding: Finding, *, is_required: bool) -> Group:
    return Group("Things", (Check("thing", "a purpose", lambda: probe_finding, is_required),))


def test_core_works_when_all_that_is_required_is_ok() -> None:
    # GIVEN a required check that is good and an optional one that is broken
    good = group_of(Finding("ok", "there"), is_required=True)
    bad = group_of(Finding("broken", "gone"), is_required=False)
    # THEN the core works
    assert core_works(examine((good, bad)))


@pytest.mark.parametrize("status", ["limited", "missing", "broken"])
def test_core_does_not_work_when_a_required_check_is_not_ok(status: str) -> None:
    finding = Finding(status, "gone")  # type: ignore[arg-type]
    assert not core_works(examine((group_of(finding, is_required=True),)))


def test_a_failing_probe_is_a_finding() -> None:
    # GIVEN probes that raise
    def no_file() -> Finding:
        raise FileNotFoundError(2, "No such file", "thing")

    def no_build() -> Finding:
        raise TracekitError("not built", hint="build it")

    group = Group("Things", (Check("a", "x", no_file), Check("b", "y", no_build)))
    # WHEN they are run
    findings = [finding for _, _, finding in examine((group,))]
    # THEN each becomes what went wrong and what to do
    assert findings == [
        Finding("broken", "FileNotFoundError: [Errno 2] No such file: 'thing'"),
        Finding("broken", "not built", "build it"),
    ]


def test_results_stand_in_the_order_of_the_groups_whose_names_are_unique() -> None:
    names = [[check.name for check in group.checks] for group in GROUPS]
    assert [check.name for _, check, _ in examine(GROUPS)] == [*itertools.chain(*names)]
    assert all(len(set(own)) == len(own) for own in names)


def test_json_and_exit_status_agree() -> None:
    # WHEN doctor looks at this machine
    done = run_doctor("--json")
    found = json.loads(done.stdout)
    # THEN its exit status says whether the core works, and every trouble names a purpose
    assert done.returncode == (0 if found["core_works"] else 1)
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["python"]["status"] == "ok"
    assert checks["duckdb"]["required"]
    assert all(check["purpose"] for check in found["checks"])
    assert all(check["detail"] for check in found["checks"] if check["status"] != "ok")


def test_a_missing_native_part_fails(tmp_path: Path) -> None:
    # GIVEN a folder without the native parts
    # WHEN doctor is told to look there
    done = run_doctor(TRACEKIT_NATIVE_DIR=str(tmp_path))
    # THEN it names the part, the folder and the remedy, and fails
    assert done.returncode == 1
    assert f"BROKEN   the native part libtracekit.so is not in {tmp_path}" in done.stdout
    assert "build it: make setup" in done.stdout


def test_a_tool_that_is_not_installed_names_its_package(tmp_path: Path) -> None:
    # GIVEN a PATH on which there is nothing
    # WHEN doctor runs
    done = run_doctor("--json", PATH=str(tmp_path))
    # THEN the tool is missing, with the package to install, and that alone is no failure
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["fio"]["status"] == "missing"
    assert checks["fio"]["remedy"] == "apt install fio"
    assert checks["blkparse"]["remedy"] == "apt install blktrace"


@pytest.mark.root
def test_without_root_it_says_what_it_could_not_try(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a user who is not root
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    # WHEN the checks are made
    found = {check.name: finding for _, check, finding in examine()}
    # THEN what needs root was not tried and says so
    assert found["tracefs blk tracer"].detail == "not tried: needs root"
    assert found["loop devices"].remedy == "run: sudo tracekit doctor"


def test_devices_that_are_polled_are_found_by_their_switch(tmp_path: Path) -> None:
    # GIVEN a disk with queues for it, one without, and one whose driver knows no such switch
    for name, text in (("nvme0n1", "1\n"), ("sda", "0\n"), ("sdb", None)):
        (tmp_path / name / "queue").mkdir(parents=True)
        if text is not None:
            (tmp_path / name / "queue/io_poll").write_text(text)
    assert polled_devices(tmp_path) == ["nvme0n1"]
