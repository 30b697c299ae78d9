"""The parts of Spark on this machine, Java and PySpark: their versions, and what is missing."""

from __future__ import annotations

import importlib.util
import os
import re
from importlib import metadata
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.helper_programs import find_helper, run_helper

LEAST_JAVA = 17
PYSPARK = "4"
"""The major version of PySpark; 4 is the first that needs Java 17."""
INSTALL_JAVA = "apt install openjdk-17-jre-headless, or set JAVA_HOME"
INSTALL_PYSPARK = "pip install 'tracekit[spark]', with the Python that runs tracekit"


def java_version() -> str:
    """Return the version of the Java that Spark would start; raise TracekitError without one."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    if find_helper(java) is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no Java"
        raise TracekitError(f"{where}: Spark needs Java {LEAST_JAVA}", hint=INSTALL_JAVA)
    said = run_helper([java, "-version"], capture_output=True, text=True, errors="replace").stderr
    found = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', said)
    if found is None or int(found[2]) < LEAST_JAVA:
        version = found[1] if found else (said.splitlines() or ["of no known version"])[0]
        message = f"{java} is {version}: Spark needs Java {LEAST_JAVA}"
        raise TracekitError(message, hint=INSTALL_JAVA)
    return found[1]


def pyspark_version() -> str:
    """Return the version of PySpark; raise TracekitError where it is missing or does not fit.

    The programs and jars are its own, or those of SPARK_HOME, which must be of the same version.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise TracekitError("there is no PySpark", hint=INSTALL_PYSPARK)
    version = metadata.version("pyspark")
    if version.partition(".")[0] != PYSPARK:
        message = f"PySpark {version} is installed, tracekit works with PySpark {PYSPARK}"
        raise TracekitError(message, hint=INSTALL_PYSPARK)
    if home := os.environ.get("SPARK_HOME"):
        minor = ".".join(version.split(".")[:2])
        if not any(Path(home, "jars").glob(f"spark-core_*-{minor}.*.jar")):
            raise TracekitError(
                f"SPARK_HOME is {home}, which is no Spark {minor}, the version of PySpark here",
                hint=f"unset SPARK_HOME, or install the PySpark of its version: {PYSPARK}.x",
            )
    return version
