"""Commands and the API have the same options: names, defaults, and words to choose from."""

import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import pytest
from typer.testing import CliRunner

import tracekit as tk
from tracekit import choices
from tracekit._native.caches import POLICIES
from tracekit.api import lab, start
from tracekit.cli import app
from tracekit.commands import COMMANDS, GROUPS, function_name, load

CALLS: dict[str, tuple[Callable[..., Any], ...]] = {
    "capture": (tk.recover, tk.capture, tk.capture_files),
    "layout": (tk.describe_disks,),
    "lab build": (lab.build,),
    "lab run": (lab.run, lab.job),
    "lab capture": (lab.capture, lab.job),
    "parse": (tk.parse,),
    "import": (tk.read, tk.read_set),
    "generate": (start.write_requests,),
    "fit": (tk.Trace.fit,),
    "export": (tk.Trace.export,),
    "anonymize": (tk.Trace.anonymize,),
    "set add": (tk.add_to_set,),
    "set list": (tk.open_set,),
    "set info": (tk.open_set,),
    "set groups": (tk.Set.groups,),
    "classify": (tk.Trace.classify, tk.Set.classify),
    "analyze": (tk.Trace.analyze, tk.Set.analyze),
    "recommend": (tk.Trace.recommend, tk.Set.recommend),
    "simulate tiers": (tk.Simulate.tiers, tk.SetSimulate.tiers),
    "simulate cache": (tk.Simulate.cache, tk.SetSimulate.cache),
    "simulate buffer": (tk.Simulate.buffer,),
    "simulate sensitivity": (tk.Simulate.sensitivity,),
    "simulate endurance": (tk.Simulate.endurance,),
    "simulate purchase": (tk.Simulate.purchase,),
    "simulate rivals": (tk.Simulate.rivals,),
    "replay": (tk.Trace.replay, tk.Trace.replay_files, tk.Trace.replays),
    "bench": (tk.bench, tk.bench_files),
    "compare": (tk.compare, tk.Trace.compare, tk.Trace.replays),
    "verify-placement": (tk.Trace.verify_placement,),
    "prove": (tk.Trace.prove,),
    "verify-certificate": (tk.verify_certificate,),
    "characterize-device": (tk.characterize_device,),
    "profiles": (tk.profiles,),
    "formats": (tk.formats,),
    "personalities": (tk.personalities,),
    "lab uses": (lab.uses, lab.job),
    "counters": (tk.counters,),
    "sweep": (tk.sweep,),
    "report": (tk.Trace.report, tk.Set.report, tk.report),
    "run": (tk.run,),
}
OF_THE_COMMAND = {
    "as_json",
    "analyze: show_list",  # shows them and stops
    "capture: files",  # chooses between the calls
    "compare: markdown",  # how the answer is printed
    "capture: recover",
}
SHARED = ("memory", "repeat", "force", "duration", "seed", "engine", "profiles", "direct")
ANY_DEFAULT = {"bench: duration"}  # 60s for both kinds, but only without --requests


def command(name: str) -> Callable[..., Any]:
    group, _, part = name.rpartition(" ")
    found: Callable[..., Any] = getattr(load(part, group), function_name(part))
    return found


def options(function: Callable[..., Any]) -> dict[str, Any]:
    return {
        one.name: one.default
        for one in inspect.signature(function).parameters.values()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    }


def same(one: object, other: object) -> bool:
    """A command has a text where the API has a text, a number, or nothing."""
    return one == other or str(one) == str(other)


@pytest.mark.parametrize("name", CALLS)
def test_an_option_has_one_name_and_one_default(name: str) -> None:
    # GIVEN the options of a command, and what its calls take
    taken: dict[str, Any] = {}
    for call in CALLS[name]:
        given = {one.name: one.default for one in inspect.signature(call).parameters.values()}
        taken = given | taken
    # THEN each is taken by one of them, with the same default
    for option, default in options(command(name)).items():
        if option in OF_THE_COMMAND or f"{name}: {option}" in OF_THE_COMMAND:
            continue
        assert option in taken, option
        is_needed = inspect.Parameter.empty in (default, taken[option])
        if f"{name}: {option}" not in ANY_DEFAULT and not is_needed and option != "repeat":
            assert same(default, taken[option]), f"{option}: {default!r}, {taken[option]!r}"


def test_every_command_is_compared_but_sql_and_doctor() -> None:
    single = {name for name in COMMANDS if name not in GROUPS}
    parts = {f"{group} {name}" for group, names in GROUPS.items() for name in names}
    assert (single | parts) - {*CALLS} == {"sql", "doctor"}


def test_an_option_of_several_commands_has_one_type() -> None:
    # GIVEN the types of options that several commands have, without those that leave them out
    found: dict[str, set[Any]] = {}
    for name in CALLS:
        kinds = get_type_hints(command(name))
        for option in options(command(name)):
            # An engine is of a replay; that of the stages of a set is this machine or Spark.
            if option in SHARED and kinds[option] != choices.SetEngine:
                found.setdefault(option, set()).update({*_parts(kinds[option])} - {type(None)})
    # THEN each has one, beside which there are only choices of fewer of its words
    widest = {
        option: max(kinds, key=lambda kind: len(get_args(kind))) for option, kinds in found.items()
    }
    others = {(name, one) for name, kinds in found.items() for one in kinds if one != widest[name]}
    assert found.keys() == {*SHARED}
    assert [one for name, one in others if not {*get_args(one)} < {*get_args(widest[name])}] == []
    assert {name for name, _ in others} == {"engine"}


def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if type(None) in get_args(kind) else (kind,)


def test_the_policies_are_those_of_the_library() -> None:
    assert choices.words(choices.Policy) == POLICIES


def test_summaries_fit_the_terminal() -> None:
    # GIVEN a terminal of 80 columns, WHEN help is shown, THEN no summary is cut or goes on
    shown = CliRunner().invoke(app, ["--help"], terminal_width=80).stdout
    lines = shown.splitlines()
    listed = [line.split(maxsplit=1) for line in lines if line.split()[:1] and line[2:3].isalpha()]
    assert [tuple(words) for words in listed if words[0] in COMMANDS] == list(COMMANDS.items())
    assert [line for line in lines if line.endswith("...") and "[" not in line] == []
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["simulate", "cache", "x", "--policy", "lru,mru"], choices.Policy),
        (["replay", "x", "--pace", "open"], choices.Pace),
        (["bench", "paging", "-o", "x", "--pace", "open"], choices.BenchPace),
        (["sweep", "varmail", "--target", "x", "-o", "x", "--cache", "hot"], choices.CacheState),
        (["recommend", "x", "--level", "all"], choices.Level),
    ],
)
def test_a_word_that_is_none_is_told_the_others(words: list[str], known: Any) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert all(word in done.stderr for word in choices.words(known))
    assert "(" not in done.stderr.partition("Error: ")[2]
