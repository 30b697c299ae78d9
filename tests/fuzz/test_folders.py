"""Hostile folders: those that once did harm, and the first few that the fuzzer draws."""

import subprocess
import sys

from tests.fuzz.known_folders import CASES

DRAWN = 8


def test_no_folder_harms_what_is_not_its_own() -> None:
    command = [sys.executable, "-m", "tests.fuzz.folders", "--first", "1", "--cases", str(DRAWN)]
    ran = subprocess.run(
        [*command, "--seconds", "500"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"folders: {len(CASES) + DRAWN} cases: " in ran.stdout
    assert "ended well" in ran.stdout
