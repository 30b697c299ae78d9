"""The commands, one module each, imported when used; the order here is that of the help."""

from __future__ import annotations

import keyword
from importlib import import_module
from types import ModuleType

# Names by what they are for, and what `tracekit --help` says of each on one line of 80 columns.
SECTIONS = {
    "Record": {
        "capture": "Record block events of disks, or file operations.",
        "layout": "Draw what is on disks, and write it as layout.json.",
        "lab": "Run and capture a command in a small virtual machine.",
    },
    "Read and make traces": {
        "parse": "Decode a block trace into a trace folder.",
        "import": "Turn a trace of another tool into a trace folder.",
        "generate": "Make requests of a work profile.",
        "fit": "Make a work profile of a trace.",
        "export": "Write the requests of a trace for other tools.",
        "anonymize": "Make a trace that can be given away.",
        "set": "Keep the traces of many volumes in one folder.",
    },
    "Understand": {
        "classify": "Give requests their role and blocks their temperature.",
        "analyze": "Run the SQL analyses over a trace.",
        "sql": "Run SQL over a trace's tables.",
        "report": "Write one HTML file with the answer and its evidence.",
    },
    "Decide": {
        "recommend": "Say where a small NVM should go.",
        "simulate": "Ask what tiers, caches or row buffers would gain.",
    },
    "Prove": {
        "replay": "Replay a trace on files or devices.",
        "verify-placement": "Replay the recommended placement to test the model.",
        "prove": "Measure two devices, and test the model on them.",
        "compare": "Compare times of replays.",
        "verify-certificate": "Compute the numbers of a certificate again.",
    },
    "Measure": {
        "characterize-device": "Measure a device and fit a profile to it.",
        "bench": "Run a work profile or personality on a target.",
        "sweep": "Run personalities over many parameters.",
        "counters": "Count hardware events beside a command's throughput.",
    },
    "All in one, and what there is": {
        "run": "Go from a capture to its report in one go.",
        "doctor": "Say what this machine can do for tracekit.",
        "profiles": "List and compare device profiles.",
        "formats": "List the formats of traces that import knows.",
        "personalities": "List what bench can run, or show its definitions.",
    },
}
COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}
GROUPS = {
    "lab": {
        "build": "Make the guest's kernel and root file system.",
        "run": "Run a command in the guest.",
        "capture": "Record the block events of a command in the guest.",
        "uses": "Run a command with NVM as swap, as journal and as file system.",
    },
    "set": {
        "add": "Add trace folders to a set.",
        "list": "List the volumes of a set.",
        "info": "Say how many volumes and requests there are.",
        "groups": "Group the volumes that behave alike.",
    },
    "simulate": {
        "tiers": "Which mix of storage tiers gives most for its price?",
        "cache": "What would a cache of any size hit?",
        "buffer": "What would row buffers of an NVRAM hit?",
        "sensitivity": "Does the recommendation hold?",
        "endurance": "How long does the NVM last, and what does it cost?",
        "purchase": "Which device is worth its price, if any?",
        "rivals": "Does a cache beat the recommendation?",
    },
}
"""Commands that are groups, and their sub-commands."""
RUN_PROGRAMS = frozenset(("capture", "counters", "lab"))
"""Commands that run a program of the user's, which inherits our environment."""


def function_name(name: str) -> str:
    """Return the name of a command's function and module: a word of the language gets a line."""
    return f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")


def load(name: str, group: str = "") -> ModuleType:
    """Import the module of a command, or of a sub-command of a group."""
    return import_module(".".join(filter(None, (__name__, group, function_name(name)))))
