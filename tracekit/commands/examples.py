"""Examples of the commands, and headings of many options, for their help and docs/commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": (
        "tracekit doctor",
        "tracekit capture /dev/sdb -o capture --duration 60s",
        "tracekit run capture -o out/trace",
    ),
    "capture": (
        "tracekit capture /dev/sdb -o capture --duration 60s",
        "tracekit capture /dev/sdb -o capture -- pgbench -c 8 -T 60 test",
        "tracekit capture --files -o calls -- make -j8",
    ),
    "layout": (
        "tracekit layout",
        "tracekit layout --text lsblk.json --text findmnt.json -o layout.json",
    ),
    "lab build": ("tracekit lab build", "tracekit lab build --package sqlite3"),
    "lab run": (
        "tracekit lab run -o out/guest --disk fs=1GiB -- dd if=/dev/zero of=x bs=1M count=64",
        "tracekit lab run -o out/dax --pmem 256MiB -- fio job.fio",
    ),
    "lab capture": (
        "tracekit lab capture -o out/guest --disk fs=1GiB --disk swap=1GiB -- make -j2",
        "tracekit lab capture -o out/slow --disk fs=1GiB:5ms -- fio job.fio",
    ),
    "lab uses": (
        "tracekit lab uses -o out/uses --disk fs=1GiB:5ms --disk swap=1GiB:5ms --nvm 1us -- ./load",
        "tracekit lab uses -o out/uses --disk fs=1GiB:5ms --nvm 1us --exact -- ./load",
    ),
    "parse": (
        "tracekit parse capture -o out/trace",
        "tracekit parse sda.blktrace.0 sda.blktrace.1 -o out/trace --salvage",
    ),
    "import": (
        "tracekit import web.csv.gz -o out/web",
        "tracekit import volumes.csv.gz --split-by volume -o out/set",
        "tracekit import volumes.csv --split-by volume -o out/set --engine spark",
        "tracekit import s3://logs/day.csv.gz --split-by volume -o s3://traces/day",
        "tracekit import log.txt --columns time,op,offset,length --unit time=ms -o out/log",
    ),
    "generate": (
        "tracekit generate web-server -o out/web --requests 100000",
        "tracekit generate own.toml --format fio -o own.log",
    ),
    "fit": (
        "tracekit fit out/trace -o out/trace.toml",
        "tracekit fit out/trace -o out/trace.toml --processes 4 --force",
    ),
    "export": (
        "tracekit export out/trace --format fio -o out/trace.log",
        "tracekit export out/trace --format blkparse -o out/trace.txt",
    ),
    "anonymize": (
        "tracekit anonymize out/trace -o out/to-share",
        "tracekit anonymize out/trace -o out/to-share --force",
    ),
    "set add": (
        "tracekit set add out/set out/web out/mail",
        "tracekit set add out/set",
        "tracekit set add s3://traces/day out/web",
    ),
    "set list": ("tracekit set list out/set", "tracekit set list out/set --json"),
    "set groups": ("tracekit set groups out/set", "tracekit set groups out/set --json"),
    "set info": ("tracekit set info out/set", "tracekit set info out/set --json"),
    "classify": (
        "tracekit classify out/trace",
        "tracekit classify out/trace --role sda2=journal",
    ),
    "analyze": (
        "tracekit analyze out/trace",
        "tracekit analyze --list",
    ),
    "recommend": (
        "tracekit recommend out/trace --nvm ssd-optane --capacity 16GiB",
        "tracekit recommend out/trace --unit file --script move.sh",
    ),
    "simulate tiers": (
        "tracekit simulate tiers out/trace --tiers ssd-optane,ssd-emlc,hdd-15k",
        "tracekit simulate tiers out/trace --extent 1MiB --dynamic --window 10min",
    ),
    "simulate cache": (
        "tracekit simulate cache out/trace",
        "tracekit simulate cache out/trace --policy arc,s3-fifo --sizes 64MiB,1GiB",
        "tracekit simulate cache out/set --engine spark",
    ),
    "simulate buffer": (
        "tracekit simulate buffer out/memory",
        "tracekit simulate buffer out/memory --sizes 512B,4KiB --buffers 4,16",
    ),
    "simulate sensitivity": (
        "tracekit simulate sensitivity out/trace",
        "tracekit simulate sensitivity out/trace --windows 1h --factors 0.5,2",
    ),
    "simulate endurance": (
        "tracekit simulate endurance out/trace",
        "tracekit simulate endurance out/trace --device ssd-optane --write-amplification 2",
    ),
    "simulate purchase": (
        "tracekit simulate purchase out/trace --nvm ssd-optane,dax-pcm --budget 2000",
        "tracekit simulate purchase out/trace --growth 1.3 --share out/other",
    ),
    "simulate rivals": (
        "tracekit simulate rivals out/trace",
        "tracekit simulate rivals out/trace --placement 16GiB",
    ),
    "replay": (
        "tracekit replay out/trace --target /mnt/ssd/file --pace fast",
        "tracekit replay out/trace --target /dev/sdb --target journal=/dev/pmem0 --dry-run",
        "tracekit replay out/trace --engine emulated --device ssd-nvme",
    ),
    "bench": (
        "tracekit bench web-server -o out/web --target /mnt/ssd/file --repeat 5",
        "tracekit bench varmail -o out/mail --target /mnt/ssd --threads 16",
    ),
    "compare": (
        "tracekit compare out/trace trace latest",
        "tracekit compare out/trace --run 'a: --target /mnt/a/x' --run 'b: --target /mnt/b/x'",
        "tracekit compare out/before out/after --gate p99=10%,footprint --markdown",
    ),
    "verify-placement": (
        "tracekit verify-placement out/trace",
        "tracekit verify-placement out/trace --target /mnt/hdd/x --target nvm=/mnt/nvm/x",
    ),
    "prove": (
        "tracekit prove out/trace --base /dev/sdb --nvm /dev/pmem0",
        "tracekit prove out/trace --base /mnt/hdd/x --nvm /mnt/nvm/x --quick",
    ),
    "verify-certificate": (
        "tracekit verify-certificate out/trace/replays/latest",
        "tracekit verify-certificate out/trace/replays/latest --json",
    ),
    "characterize-device": (
        "tracekit characterize-device /dev/sdb -o out/disk",
        "tracekit characterize-device /mnt/ssd/file --size 4GiB --quick -o out/ssd",
    ),
    "profiles": ("tracekit profiles", "tracekit profiles ssd-optane ssd-nvme"),
    "formats": ("tracekit formats", "tracekit formats msr"),
    "personalities": ("tracekit personalities", "tracekit personalities varmail > own.toml"),
    "counters": (
        "tracekit counters -o out/events --workload varmail --repeat 10 -- ./load",
        "tracekit counters -o out/events --from perf.json=1200",
    ),
    "sweep": (
        "tracekit sweep varmail --target /mnt/ssd --threads 1,8,32 -o out/sweep",
        "tracekit sweep fileserver webproxy --target a=/mnt/a --target b=/mnt/b -o out/both",
    ),
    "report": (
        "tracekit report out/trace",
        "tracekit report out/trace -o trace.html",
        "tracekit report out/before out/after -o change.html",
        "tracekit report out/set -o set.html",
    ),
    "sql": (
        "tracekit sql out/trace 'select role, count(*) from requests group by all'",
        "tracekit sql out/trace --describe",
    ),
    "run": (
        "tracekit run capture -o out/trace",
        "tracekit run out/trace --nvm ssd-optane --capacity 16GiB --replay none",
    ),
    "doctor": ("tracekit doctor", "tracekit doctor --json"),
}

HEADINGS: Mapping[str, Mapping[str, str]] = {
    "capture": {
        "What is recorded": "duration source names user untraced remote",
        "File operations": "files below hash_names",
        "Buffers and parts": "buffer max_size rotate last slower",
    },
    "import": {
        "Format": "format columns delimiter regex blkparse_format layout",
        "Meaning": "unit force_units join op rate page",
        "Faults": "max_bad salvage explain",
        "Trace set": "split_by engine master",
    },
    "simulate tiers": {
        "Tiers": "tiers extent step capacity amount rounding profiles what_if vary",
        "Moves": "dynamic window migration charge_migration migration_cost promotion_cost"
        " demotion_cost move_by",
        "Trace set": "engine master",
    },
    "simulate cache": {
        "Cache": "page sizes policy write write_miss levels level_policy level_write",
        "Curves": "volumes sample_rate samples",
        "Devices": "pcm flash base profiles vary",
        "Trace set": "engine master",
    },
    "replay": {
        "Targets": "target engine device profiles placement write_to overwrite_signature"
        " no_space_check keep",
        "Times": "pace speed late late_limit max_idle start end lead",
        "Requests": "level limit priority out_of_range overlaps expand",
        "Submission": "depth threads submitters sqpoll iopoll direct",
        "File operations": "files cache",
        "Verdict": "budget certify observe",
    },
    "prove": {
        "Targets": "base nvm size write_to",
        "Measurement": "quick scale rounds",
        "Recommendation": "capacity placement profiles",
        "Replays": "duration repeat tolerance time_tolerance",
    },
    "characterize-device": {
        "Target": "size engine device profiles direct write_to overwrite_signature keep",
        "Measurements": "quick scale fill precondition writes reads sizes flushes surface"
        " write_percents depths trace seed",
        "Profile": "name like price",
    },
    "bench": {
        "Target": "target target_size write_to keep",
        "Run": "duration repeat seed",
        "Of a work profile": "requests speed pace depth engine device",
        "Of a personality": "threads files settings warm_up cache",
    },
    "sweep": {
        "Parameters": "files io_size threads vary",
        "Runs": "target duration warm_up repeat until cache seed exact",
    },
}
"""Of commands with many options: headings, and what stands below each; the rest follows."""


def epilog(name: str) -> str | None:
    """Return the end of a command's help, where there are examples; each line stays one."""
    lines = "".join(f"  {line}\n" for line in EXAMPLES.get(name, ()))
    return f"\b\nExamples:\n{lines}" if lines else None
