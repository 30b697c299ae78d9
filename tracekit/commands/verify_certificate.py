"""`tracekit verify-certificate`: is what a replay's certificate says what its files say?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options
from tracekit.errors import InputError


def verify_certificate(
    replay: Annotated[
        Path, typer.Argument(help="Folder of a replay, wherever it is now, or its certificate.")
    ],
    *,
    as_json: options.Json = False,
) -> None:
    """Compute the numbers of a replay's certificate again from its plan and its completions.

    Exit code 0: the certificate is what these files say, whatever its verdict. 1: it is not, and
    each difference is named.
    """
    from msgspec import to_builtins

    from tracekit.replay.words import describe_verdict

    found = tk.verify_certificate(replay)
    if as_json:
        shown = {"file": str(found.file), "differences": found.differences}
        content = {**shown, "certificate": to_builtins(found.certificate)}
        options.say_json(content)
    else:
        options.say(*describe_verdict(found.certificate.result))
    if found.differences:
        raise InputError(
            f"{found.file} is not what the files beside it say",
            *found.differences,
            hint="ask for the folder again: something in it was changed",
        )
    if not as_json:
        options.say(f"{found.file}: {found.values:,} values were computed again, all are the same")
