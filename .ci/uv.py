#!/usr/bin/env python3
"""Run uv with the package index, certificates and proxies that this machine gave to pip.

uv does not read pip's configuration. Whoever set a company mirror or a certificate for pip has set
it for this project too, so pip's values are handed to uv, unless uv has values of its own.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def pip_options() -> dict[str, list[str]]:
    """Return pip's options as words; the later of global, install and environment wins."""
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = {}
    for section in ("global.", "install.", ":env:."):
        for line in answer.stdout.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section):
                found[name.removeprefix(section)] = str(ast.literal_eval(value)).split()
    return found


def existing(links: list[str]) -> list[str]:
    """Leave out local folders that are not there: pip passes over them, uv would stop."""
    return [link for link in links if "://" in link or Path(link).exists()]


def uv_environment(pip: dict[str, list[str]]) -> dict[str, str]:
    """Translate pip's options into uv's variables."""
    certificates = pip.get("cert", [])
    if not certificates and CERTIFICATES.exists():
        certificates = [str(CERTIFICATES)]
    wanted = {
        "UV_DEFAULT_INDEX": " ".join(pip.get("index-url", [])),
        "UV_INDEX": " ".join(pip.get("extra-index-url", [])),
        "UV_FIND_LINKS": ",".join(existing(pip.get("find-links", []))),
        "UV_INSECURE_HOST": " ".join(pip.get("trusted-host", [])),
        "UV_HTTP_TIMEOUT": " ".join(pip.get("timeout", pip.get("default-timeout", []))),
        "SSL_CERT_FILE": " ".join(certificates),
        "ALL_PROXY": " ".join(pip.get("proxy", [])),
    }
    older_names = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}
    return {
        name: value
        for name, value in wanted.items()
        if value and not {name, older_names.get(name, name)} & os.environ.keys()
    }


if __name__ == "__main__":
    program = str(Path(sys.executable).with_name("uv"))
    os.execve(program, [program, *sys.argv[1:]], {**os.environ, **uv_environment(pip_options())})  # noqa: S606
