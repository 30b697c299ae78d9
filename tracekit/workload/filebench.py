"""What a file of filebench (`.f`) lets threads do, as a personality with filebench's semantics."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lark import Token, Tree

from tracekit.errors import InputError, UsageError
from tracekit.units import parse_size
from tracekit.workload.filebench_script import (
    MOST_NUMBER,
    Attributes,
    Place,
    Scalar,
    Scope,
    Variables,
    cvar_of,
    number_of,
    parse_file,
    place_of,
    product_of,
    randvar_of,
    scalar_of,
    variable_name,
)
from tracekit.workload.flow import (
    LIMITS,
    MOVES_DATA,
    WORDS,
    FileSet,
    Flow,
    Group,
    Loop,
    Operation,
    Personality,
    mean_of,
    operations,
)
from tracekit.workload.random_values import RandomValue

MADE_ANEW = "files are made anew for each run"
OWN_BUFFERS = "calls use buffers of the program"
FILES = {
    "name": "", "size": "", "filesize": "", "prealloc": "", "readonly": "", "writeonly": "",
    "path": "it is below --target",
    "paralloc": "files are made by several threads in any case",
    "reuse": MADE_ANEW, "trusttree": MADE_ANEW, "cached": "--cache says what becomes of caches",
}  # fmt: skip
FILE_SETS = FILES | {
    "entries": "", "dirwidth": "", "dirgamma": "", "leafdirs": "",
    "dirdepthrv": "!is not run: write dirgamma, which draws depth and width",
}  # fmt: skip
PROCESS = {"name": "", "instances": "", "nice": ""}
THREAD = {
    "name": "", "instances": "", "ioprio": "",
    "memsize": OWN_BUFFERS, "useism": OWN_BUFFERS,
}  # fmt: skip
FLOWOP = dict.fromkeys((
    "name", "filename", "filesetname", "iosize", "workingset", "random", "dsync", "directio", "fd",
    "srcfd", "opennext", "blocking", "highwater", "target", "value", "indexed", "iters",
    "noreadahead",
), "")  # fmt: skip
COMPOSITE = {"name": "", "iters": ""}
SAID_ONLY = ("print", "testrandvar")
MODES = ("timeout", "firstdone", "alldone")
MOST_THREADS = 4096
MOST_WRITERS = 20  # of a process: as many threads as glibc serves asynchronous requests by
MOST_FD = 127
MOST_OPERATIONS = 100_000  # of all threads' flows, composites put in
MOST_BYTES = 1 << 62  # of a file set
MOST_LABEL = 31
ALIASES = {"threads": "nthreads", "files": "nfiles", "io_size": "iosize"}
"""Options of commands, and the variables that published files have for them."""


def read_filebench(
    file: Path,
    settings: Mapping[str, str],
    *,
    given_by: Mapping[str, str] = MappingProxyType({}),
) -> Personality:
    """Return what a file of filebench does; `settings` are other values of its variables.

    Raises InputError naming file, line, word and what to do for all that is wrong or is not run.
    """
    text, commands = parse_file(file)
    given = {ALIASES.get(key, key): _given(key, value, given_by) for key, value in settings.items()}
    script = _Script(file, Variables(given))
    for command in commands:
        if script.is_over:
            script.not_used["commands behind run (a run ends there)"] += 1
            continue
        getattr(script, f"on_{command.data}")(command, place_of(file, command))
    _check_given(script, settings, given_by)
    groups = tuple(_groups(script))
    if not groups:
        raise InputError(
            f"{file}: it defines no process with a thread", hint="define process name=... { ... }"
        )
    found = Personality(
        name=file.stem,
        about=f"{file.name} of filebench",
        file_sets=tuple(_file_set(one) for one in script.files),
        groups=groups,
        parameters=_parameters(script.variables),
        definition=hashlib.sha256(text.encode()).hexdigest()[:8],
        end=script.end,
        events_per_second=script.events(),
        seconds=script.seconds(),
        not_used=tuple(f"{count} x {what}" for what, count in sorted(script.not_used.items())),
    )
    _check(found, file)
    return _shortened(found)


def _given(key: str, text: str, given_by: Mapping[str, str]) -> Scalar:
    if text in ("true", "false"):
        return text == "true"
    option = given_by.get(key, f"--set {key}")
    try:
        number = number_of(text)
    except ValueError:
        return parse_size(text, option=option)
    if abs(number) > MOST_NUMBER:
        raise UsageError(f"{option}: {number:.6g} is beyond 2^63")
    return number


def _check_given(script: _Script, settings: Mapping[str, str], given_by: Mapping[str, str]) -> None:
    """Raise UsageError for a variable that the file does not set."""
    known = script.variables.values
    for key in settings:
        if ALIASES.get(key, key) not in known:
            close = get_close_matches(key, known, n=1)
            raise UsageError(
                f"{given_by.get(key, f'--set {key}')}: {script.file} sets no variable '{key}'",
                hint=f"did you mean '{close[0]}'?" if close else f"it sets {', '.join(known)}",
            )


def _parameters(variables: Variables) -> dict[str, int | float]:
    """Return the variables that are numbers, drawn ones by their mean, also by options' names."""
    found: dict[str, int | float] = {}
    for name, value in variables.values.items():
        if isinstance(value, RandomValue):
            found[name] = mean_of(value)
        elif not isinstance(value, str):
            found[name] = int(value) if isinstance(value, bool) else value
    return {key: found[name] for key, name in ALIASES.items() if name in found} | found


@dataclass
class _Process:
    found: Attributes
    threads: list[tuple[Attributes, list[Tree[Token]]]]


@dataclass
class _Script:
    """What the commands of a file say, in their order."""

    file: Path
    variables: Variables
    files: list[Attributes] = field(default_factory=list)
    processes: list[_Process] = field(default_factory=list)
    composites: dict[str, tuple[Attributes, list[Tree[Token]]]] = field(default_factory=dict)
    not_used: Counter[str] = field(default_factory=Counter)
    end: str = "timeout"
    is_over: bool = False
    rate: Attributes | None = None
    flowops: int = 0
    run_for: tuple[Any, Place] | None = None

    def attributes(self, tree: Tree[Token], what: str) -> Attributes:
        """Return the attributes of a command or flowop."""
        place = place_of(self.file, tree)
        own = next((one for one in _trees(tree) if one.data == "attributes"), None)
        return Attributes.of(own, what, place=place, variables=self.variables)

    def on_assign(self, tree: Tree[Token], place: Place) -> None:
        """Set a variable."""
        (value,) = _trees(tree)
        self.variables.set(variable_name(str(tree.children[0])), self._assigned(value, place))

    def _assigned(self, value: Tree[Token], place: Place) -> Scalar:
        if value.data == "product":
            return product_of(value, place, variables=self.variables)
        if value.data == "random":
            return randvar_of(self.attributes(value, "a randvar"), self.not_used)
        if value.data == "custom":
            return cvar_of(self.attributes(value, "a cvar"), self.not_used)
        return scalar_of(value, place, variables=self.variables)

    def on_define_random(self, tree: Tree[Token], place: Place) -> None:
        """Set a variable as version 1.4 does."""
        found = self.attributes(tree, "a randvar")
        name = found.words.get("name")
        if name is None or name.children[0].type != "VARIABLE":
            raise place.error("define randvar needs name=$NAME")
        self.variables.set(variable_name(name.children[0]), randvar_of(found, self.not_used))

    def on_mode(self, tree: Tree[Token], place: Place) -> None:
        """Say when a run ends."""
        word = str(tree.children[0])
        if word == "nousestats":
            self.not_used["set mode nousestats (use of the processor is always noted)"] += 1
        elif word in MODES:
            self.end = word
        else:
            raise place.error(f"there is no mode '{word}'", f"set mode quit {' | '.join(MODES)}")

    def on_define_files(self, tree: Tree[Token], _: Place) -> None:
        """Keep a file or file set."""
        kind = str(tree.children[0])
        found = self.attributes(tree, f"a {kind.removesuffix('s')}")
        found.check(FILES if kind == "file" else FILE_SETS, self.not_used)
        self.files.append(found)

    def on_define_process(self, tree: Tree[Token], _: Place) -> None:
        """Keep a process."""
        found = self.attributes(tree, "a process")
        found.check(PROCESS, self.not_used)
        if found.number("nice", 0) != 0:
            raise found.places["nice"].error("nice is not run", "start tracekit with nice instead")
        threads = []
        for one in _trees(tree):
            if one.data == "thread":
                of = self.attributes(one, "a thread")
                of.check(THREAD, self.not_used)
                if of.has("ioprio") and of.number("ioprio") != 8:
                    raise of.places["ioprio"].error(
                        "ioprio is not run", "start with ionice instead"
                    )
                threads.append((of, [op for op in _trees(one) if op.data == "flowop"]))
        self.processes.append(_Process(found, threads))

    def on_define_flowop(self, tree: Tree[Token], _: Place) -> None:
        """Keep a composite flowop."""
        found = self.attributes(tree, "a composite flowop")
        found.check(COMPOSITE, self.not_used)
        self.composites[found.text("name")] = (
            found,
            [op for op in _trees(tree) if op.data == "flowop"],
        )

    def on_eventgen(self, tree: Tree[Token], _: Place) -> None:
        """Keep the rate of events."""
        self.rate = self.attributes(tree, "eventgen")
        self.rate.check({"rate": ""}, self.not_used)

    def on_create(self, _: Tree[Token], __: Place) -> None:
        """Files are made before the run in any case."""

    def on_run(self, tree: Tree[Token], place: Place) -> None:
        """End of the file: what comes behind is not done."""
        self.is_over = True
        if tree.children:
            self.run_for = (tree.children[0], place)

    def on_psrun(self, tree: Tree[Token], place: Place) -> None:
        """Also of one that prints while it runs."""
        self.not_used["psrun's period (the timeline of a run has it)"] += 1
        self.is_over = True
        if len(tree.children) == 2:
            self.run_for = (tree.children[1], place)

    def on_quit(self, _: Tree[Token], place: Place) -> None:
        """Nothing would be run."""
        raise place.error("it quits before it runs", "remove quit")

    def on_sleep(self, _: Tree[Token], __: Place) -> None:
        """Nothing runs at that time."""
        self.not_used["sleep (nothing runs then)"] += 1

    def on_said(self, tree: Tree[Token], _: Place) -> None:
        """Only words on the terminal."""
        word = str(tree.children[0]) if tree.children else "enable lathist"
        self.not_used[f"{word} (only printed)"] += 1

    def on_refused(self, tree: Tree[Token], place: Place) -> None:
        """What would reach beyond the run."""
        word = str(tree.children[0]) if isinstance(tree.children[0], Token) else "enable multi"
        raise place.error(f"'{word}' is not run: it goes beyond this run", "remove the line")

    def events(self) -> int:
        """Return the rate of events for a second, 0 where there is none."""
        return self.rate.number("rate", most=1_000_000_000) if self.rate else 0

    def seconds(self) -> int | None:
        """Return how long it runs; None where it says nothing."""
        if self.run_for is None:
            return None
        token, place = self.run_for
        found = scalar_of(Tree("value", [token]), place, variables=self.variables)
        if isinstance(found, str | RandomValue) or not 0 <= found < 1 << 31 or found % 1:
            raise place.error(f"run for {token} seconds", "whole seconds, to 2^31 - 1")
        return int(found) or None


def _trees(tree: Tree[Token]) -> list[Tree[Token]]:
    return [one for one in tree.children if isinstance(one, Tree)]


def _file_set(found: Attributes) -> FileSet:
    name = _plain_name(found)
    size = found.value("size", found.value("filesize", 1024))
    is_set = found.has("entries") or found.has("dirwidth") or found.has("leafdirs")
    if found.what == "a fileset" and not found.has("dirwidth"):
        raise found.place.error(f"the fileset {name} has no dirwidth", "add dirwidth=20")
    share = found.scalar("prealloc", default=0)
    percent = 100 * share if isinstance(share, bool) else found.number("prealloc", 0, most=100)
    count = found.number("entries", 0, most=50_000_000) if is_set else 1
    leaves = found.number("leafdirs", 0, most=50_000_000)
    if count + leaves == 0:
        raise found.place.error(f"the fileset {name} has neither entries nor leafdirs")
    if mean_of(size) * count > MOST_BYTES:
        raise found.place.error(
            f"size: {count:,} files of about {mean_of(size):,} bytes", "at most 4 EiB are run"
        )
    access = "read" if found.flag("readonly") else "write" if found.flag("writeonly") else ""
    return FileSet(
        name=name,
        count=count,
        size=size,
        width=found.value("dirwidth", 10),
        width_shape=found.number("dirgamma", 1500) / 1000 if is_set else 0,
        present_ratio=percent / 100,
        leaf_directories=leaves,
        access=access,
    )


def _plain_name(found: Attributes) -> str:
    name = found.text("name")
    if "/" in name or name in (".", "..") or len(name.encode()) > 200:
        raise found.place.error(f"the name '{name}' of {found.what} is none of a directory")
    return name


def _groups(script: _Script) -> list[Group]:
    groups: list[Group] = []
    for process in script.processes:
        times = process.found.number("instances", 1, most=MOST_THREADS)
        own = []
        for found, flowops in process.threads:
            name = f"{process.found.text('name')}.{found.text('name')}"
            threads = found.number("instances", 1, most=MOST_THREADS)
            flow = _flow(script, flowops, {}, "")
            if not flow:
                raise found.place.error(f"the thread {name} has no flowop")
            own.append(Group(name, threads, flow))
        groups += _of_processes(own, times)
    threads = sum(group.threads for group in groups)
    writers = sum(group.threads * group.writers for group in groups)
    if groups and threads == 0:
        place = script.processes[0].found.place
        raise place.error("no process has threads: all instances are 0", "instances=1")
    if threads + writers > MOST_THREADS:
        more = f" and {writers:,} for their asynchronous writes" if writers else ""
        raise InputError(
            f"{script.file}: {threads:,} threads{more}; at most {MOST_THREADS:,} are run",
            hint="lower the instances, such as with --set nthreads=50",
        )
    return groups


def _of_processes(groups: list[Group], times: int) -> list[Group]:
    """Return the threads of so many processes; those of one share glibc's for their writes."""
    fds = [_write_fds(group.flow) for group in groups]
    sharing = sum(group.threads for group, own in zip(groups, fds, strict=True) if own)
    share = max(1, MOST_WRITERS // max(sharing, 1))
    return [
        replace(group, threads=times * group.threads, writers=min(len(own), share))
        for group, own in zip(groups, fds, strict=True)
    ]


def _write_fds(flow: Flow) -> set[int]:
    """Return the descriptors of asynchronous writes: those of one come one after the other."""
    found: set[int] = set()
    for one in operations(flow):
        if one.kind == "aiowrite":
            found.update(range(MOST_FD + 1) if one.rotates and one.fd == 0 else [one.fd])
    return found


def _flow(script: _Script, trees: list[Tree[Token]], scope: Scope, prefix: str) -> Flow:
    """Return flowops with composites put in; `prefix` begins the names of those within one."""
    flow: list[Operation | Loop] = []
    for tree in trees:
        kind = str(tree.children[0])
        found = script.attributes(tree, f"flowop {kind}").within(scope)
        script.flowops += 1
        if script.flowops > MOST_OPERATIONS:
            raise found.place.error(
                f"flowop {kind}: more than {MOST_OPERATIONS:,} flowops, composites put in"
            )
        if kind in script.composites:
            flow.append(_composite(script, kind, found, prefix))
        elif kind in SAID_ONLY:
            script.not_used[f"flowop {kind} (only printed)"] += 1
        elif kind == "aioread":
            hint = "asynchronous there are aiowrite and aiowait; write it as read"
            raise found.place.error("there is no flowop 'aioread', nor has filebench one", hint)
        elif kind in WORDS:
            flow.append(_operation(script, kind, found, prefix))
        else:
            known = [*WORDS, *script.composites]
            close = get_close_matches(kind, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise found.place.error(f"there is no flowop '{kind}'", hint)
    return tuple(flow)


def _composite(script: _Script, kind: str, found: Attributes, prefix: str) -> Loop:
    """Return the flowops of a composite, with the values that it is used with."""
    definition, trees = script.composites[kind]
    found.check(COMPOSITE, script.not_used)
    if prefix.count(".") > 16:
        raise found.place.error(f"the composite flowop {kind} is within itself")
    local: dict[str, Any] = {}
    for which in (definition, found):
        for name, value in which.local.items():
            if value is not None:
                local[name] = scalar_of(
                    value, which.place, variables=script.variables, scope=found.scope
                )
            elif name not in definition.local:
                raise found.place.error(f"${name} has no value")
    name = found.text("name", kind)
    body = _flow(script, trees, local, f"{prefix}{name}.")
    return Loop(found.value("iters", definition.value("iters", 1)), body)


def _operation(script: _Script, kind: str, found: Attributes, prefix: str) -> Operation:
    found.check(FLOWOP, script.not_used)
    if found.local:
        raise found.place.error(f"flowop {kind} takes no variables; only composites do")
    files = None
    for word in ("filename", "filesetname"):
        if found.has(word):
            files = found.text(word)
            if files not in {one.text("name") for one in script.files}:
                known = ", ".join(one.text("name") for one in script.files)
                raise found.places[word].error(
                    f"no file or fileset '{files}' is defined", f"there are {known}"
                )
    return Operation(
        kind=kind,
        label=(prefix + found.text("name", kind)),
        files=files,
        fd=found.number("fd", 0, most=MOST_FD),
        source_fd=found.number("srcfd", 0, most=MOST_FD),
        size=found.value("iosize", 0),
        iters=found.value("iters", 1),
        value=found.value("value", 1 if kind in ("semblock", "sempost") else 0),
        index=found.value("indexed") if found.has("indexed") else None,
        working_set=found.number("workingset", 0),
        highwater=found.number("highwater", 1),
        target=found.text("target") if found.has("target") else None,
        is_random=found.flag("random"),
        is_direct=found.flag("directio"),
        is_sync=found.flag("dsync"),
        rotates=found.flag("opennext"),
        is_blocking=found.flag("blocking"),
        no_readahead=found.flag("noreadahead"),
    )


def _check(found: Personality, file: Path) -> None:
    """Raise InputError for what would fail in the run."""
    names = Counter(one.name for one in found.file_sets)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise InputError(f"{file}: the file set {twice[0]} is defined twice")
    everywhere = {one.label: one for group in found.groups for one in operations(group.flow)}
    for group in found.groups:
        own = {one.label: one for one in operations(group.flow)}
        for one in own.values():
            _check_operation(found, one, file)
            wanted = own if one.kind in LIMITS else everywhere
            if one.kind in ("sempost", "wakeup") or one.target is not None:
                _check_target(one, wanted, file)
        _check_descriptors(group, file)


def _check_target(one: Operation, known: Mapping[str, Operation], file: Path) -> None:
    kinds = {"sempost": "semblock", "wakeup": "block"}
    target = known.get(one.target or "")
    if target is None or (one.kind in kinds and target.kind != kinds[one.kind]):
        wanted = f"a {kinds[one.kind]}" if one.kind in kinds else "a flowop of its thread"
        close = [name for name, other in known.items() if other.kind == kinds.get(one.kind)]
        hint = f"name {wanted}" + (f": {', '.join(close)}" if close else "")
        is_wrong = f"its target '{one.target}' is not {wanted}" if one.target else "has no target"
        raise InputError(f"{file}: flowop {one.label}: {is_wrong}", hint=hint)


def _check_operation(found: Personality, one: Operation, file: Path) -> None:
    place = f"{file}: flowop {one.label}"
    needs_files = ("openfile", "createfile", "fsyncset", "makedir", "removedir", "listdir")
    if one.files is None and one.kind in needs_files:
        raise InputError(f"{place}: {one.kind} needs filesetname", hint="filesetname=NAME")
    if (
        one.kind in MOVES_DATA
        and one.size == 0
        and one.kind not in ("readwholefile", "writewholefile")
    ):
        raise InputError(f"{place}: {one.kind} has no iosize", hint="add iosize=4k")
    if one.is_direct and isinstance(one.size, int) and one.size % 512:
        raise InputError(
            f"{place}: directio with calls of {one.size:,} bytes", hint="use a multiple of 512"
        )
    if one.kind == "aiowrite" and not one.is_random:
        raise InputError(f"{place}: aiowrite is not random, as it must be", hint="add random")
    if one.is_random and one.kind in ("read", "write", "aiowrite") and one.files is not None:
        size = found.file_set(one.files).size
        whole = one.working_set or size
        if isinstance(whole, int) and isinstance(one.size, int) and one.size > whole:
            raise InputError(
                f"{place}: calls of {one.size:,} bytes at random places of files of {whole:,}",
                hint="make the files larger, or iosize smaller",
            )


def _check_descriptors(group: Group, file: Path) -> None:
    """Raise InputError for descriptors that two turns open twice, or use closed."""
    opened: set[int] = set()
    for one in _unrolled(group.flow, file) * 2:
        place = f"{file}: flowop {one.label}"
        if one.rotates and one.fd == 0:
            continue
        if one.kind in ("openfile", "createfile"):
            if one.fd in opened:
                raise InputError(
                    f"{place} opens fd {one.fd}, which is open there", hint="close it before"
                )
            opened.add(one.fd)
        elif one.kind in MOVES_DATA and one.files is not None:
            opened.add(one.fd)
        elif one.kind in (*MOVES_DATA, "closefile", "fsync") and one.fd not in opened:
            raise InputError(f"{place}: fd {one.fd} is not open there", hint="open it before")
        elif one.kind == "closefile":
            opened.discard(one.fd)


def _unrolled(flow: Flow, file: Path) -> list[Operation]:
    """Return the operations in their order; what is done several times twice.

    Raises InputError where there are too many.
    """
    found: list[Operation] = []
    for one in flow:
        times = 2 if isinstance(one.iters, RandomValue) else min(one.iters, 2)
        body = _unrolled(one.body, file) if isinstance(one, Loop) else [one]
        found += body * times
        if len(found) > 10 * MOST_OPERATIONS:
            raise InputError(f"{file}: composite flowops multiply without bounds", hint="use fewer")
    return found


def _shortened(personality: Personality) -> Personality:
    """Return the same with labels that a plan can hold, each of its own."""
    labels: dict[str, str] = {}
    for group in personality.groups:
        for one in operations(group.flow):
            if one.label not in labels:
                labels[one.label] = _short(one.label, set(labels.values()))
    return replace(
        personality,
        groups=tuple(
            replace(group, flow=_relabelled(group.flow, labels)) for group in personality.groups
        ),
    )


def _short(label: str, taken: set[str]) -> str:
    plain = "".join(
        one if one.isascii() and one.isprintable() and one != " " else "_" for one in label
    )
    if len(plain) <= MOST_LABEL and plain not in taken:
        return plain
    number = 2
    while (short := f"{plain[: MOST_LABEL - 4]}~{number}") in taken:
        number += 1
    return short


def _relabelled(flow: Flow, labels: Mapping[str, str]) -> Flow:
    return tuple(
        replace(one, body=_relabelled(one.body, labels))
        if isinstance(one, Loop)
        else replace(one, label=labels[one.label], target=labels.get(one.target or "", one.target))
        for one in flow
    )
