"""Results of which an input has changed since: marked, refused, and made anew as first asked."""

import html
import json
import re
import shlex
import tomllib
from contextlib import chdir
from itertools import product
from pathlib import Path

import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.report.folder import section_of
from tracekit.classify import hotness
from tracekit.errors import InputError
from tracekit.origin import outdated
from tracekit.report.sections.front import reproduce
from tracekit.store import TraceFolder


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Return a trace with an answer and what rests on it."""
    trace = tmp_path / "trace"
    succeed("generate", "web-server", "-o", trace, "--requests", "20000")
    succeed("classify", trace, "--hot", "0.4")
    succeed("analyze", trace, "--only", "totals", "--only", "footprint")
    succeed("recommend", trace, "--capacity", "2MiB", "--base", "ssd-sata")
    succeed("simulate", "endurance", trace)
    return trace


def text_of(trace: Path) -> str:
    succeed("report", trace)
    page = (trace / "report.html").read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_what_is_of_other_roles_is_marked_until_it_is_made_again(made: Path) -> None:
    # GIVEN an answer, findings and a simulation of one time
    assert "Outdated" not in text_of(made)

    # WHEN roles are given afterwards THEN each result of the earlier ones is marked
    succeed("classify", made, "--role", "profile=journal")
    text = text_of(made)
    for place in ("recommendation.json", "findings/totals.parquet", "simulations/endurance.json"):
        assert f"Outdated: {place} was made from roles" in text
    # AND what rests on the answer is refused, naming the command as it was asked
    again = f"tracekit recommend {made} --base ssd-sata --capacity 2MiB"
    for command in (("simulate", "sensitivity"), ("verify-placement",)):
        result = invoke(*command, made)
        refused(result, "roles", error=InputError)
        assert again in str(getattr(result.exception, "hint", ""))
    # AND when all that is marked is run again nothing is
    while found := re.findall(r"Run (tracekit .*) and make the report again", text):
        for line in dict.fromkeys(", ".join(found).split(", ")):
            succeed(*shlex.split(line)[1:])
        earlier, text = text, text_of(made)
        assert text != earlier
    assert json.loads((made / "recommendation.json").read_text())["base_profile"] == "ssd-sata"


def test_an_answer_that_is_new_makes_what_rested_on_it_old(made: Path) -> None:
    # GIVEN a simulation of an answer WHEN the same is recommended again THEN it is still of that
    succeed("recommend", made, "--capacity", "2MiB", "--base", "ssd-sata")
    assert "Outdated" not in text_of(made)
    # WHEN another is THEN it is not
    succeed("recommend", made, "--capacity", "4MiB")
    text = text_of(made)
    assert "simulations/endurance.json was made from an earlier recommendation.json" in text
    assert "Outdated: recommendation.json" not in text


def test_a_changed_profile_makes_the_answer_old(made: Path, tmp_path: Path) -> None:
    # GIVEN an answer with a profile of one's own WHEN its file is written anew THEN it is marked
    profiles = tmp_path / "own.toml"
    profiles.write_bytes((Path(__file__).parents[1] / "recommend" / "devices.toml").read_bytes())
    name = next(iter(tomllib.loads(profiles.read_text())))
    succeed("recommend", made, "--base", name, "--profiles", profiles)
    assert "recommendation.json was made" not in text_of(made)
    profiles.write_text(profiles.read_text() + "\n# measured again\n")
    assert f"recommendation.json was made from an earlier {profiles}" in text_of(made)


def test_the_commands_of_the_page_give_the_same_page(made: Path, tmp_path: Path) -> None:
    # GIVEN a page WHEN its commands are run in another place
    text = text_of(made)
    lines = [shlex.split(line)[1:] for line in re.findall(r"^tracekit .*$", text, re.M)]
    profile, other = made / "profile.toml", tmp_path / "again" / "trace"
    for words in lines:
        named = {"trace": str(other), "profile.toml": str(profile)}
        succeed(*(named.get(word, word) for word in words))
    # THEN the other trace has the same page and answer
    assert text_of(other).replace("profile.toml567", "web-server.toml567") == text
    for name in ("recommendation.json", "simulations/endurance.json"):
        assert (other / name).read_bytes() == (made / name).read_bytes()


def test_a_run_keeps_the_roles_that_were_given(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    succeed("generate", "web-server", "-o", trace, "--requests", "2000")
    succeed("classify", trace, "--role", "profile=swap")
    succeed("run", trace, "--replay", "none")
    assert tk.open(trace).requests.aggregate(
        "any_value(role), count(distinct role)"
    ).fetchall() == [("swap", 1)]


def test_a_classify_that_was_killed_leaves_no_result_of_its_tables(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_words: object, **_options: object) -> None:
        raise KeyboardInterrupt

    # GIVEN requests that have new roles already, and a trace.json that has the old ones
    with monkeypatch.context() as patch:
        patch.setattr(hotness, "count_blocks", killed)
        invoke("classify", made, "--role", "profile=journal")
    assert "Outdated: recommendation.json was made from roles" in text_of(made)
    # WHEN what was there before is classified again THEN nothing is outdated
    succeed("classify", made, "--hot", "0.4")
    assert "Outdated" not in text_of(made)


def test_an_option_of_white_space_is_kept(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(f"{n}\t{8192 * n}\t4096\tr\n" for n in range(1, 99)))
    columns = ("--columns", "time,offset,length,op", "--unit", "time=ms")
    words = (*columns, "--delimiter", "\t")
    succeed("import", tmp_path / "text", "-o", tmp_path / "trace", *words)
    kept = json.loads((tmp_path / "trace" / "trace.json").read_text())["asked"]
    assert kept[kept.index("--delimiter") + 1] == "\t"


def test_a_changed_layout_makes_the_roles_old(made: Path, tmp_path: Path) -> None:
    # GIVEN roles of a layout's file WHEN it is written anew THEN they are marked, from anywhere
    layout = tmp_path / "layout.sfdisk"
    layout.write_text(
        "label: dos\ndevice: /dev/profile\nunit: sectors\n\n"
        "/dev/profile1 : start=0, size=2097120, type=83\n"
    )
    with chdir(tmp_path):
        succeed("classify", made, "--layout", layout.name)
    assert "the roles were made" not in text_of(made)
    layout.write_text(layout.read_text().replace("83", "82"))
    text = text_of(made)
    assert f"tracekit classify {made} --layout {layout}" in text


def test_what_an_edited_result_says_of_itself_does_no_harm(made: Path) -> None:
    file = made / "recommendation.json"
    whole = json.loads(file.read_text())
    strange = ({"roles": "x"}, {"a\0b": "x"}, {"\ud800x": "x"}, {"/dev/zero": "x"}, "x", [1], None)
    for asked, made_from in product((7, ["--nvm", None], "x", {"a": 1}), strange):
        file.write_text(json.dumps(whole | {"asked": asked, "made_from": made_from}))
        found = outdated(made, json.loads((made / "trace.json").read_text()))
        assert all(one.command.startswith("tracekit ") and one.text for one in found.values())
        if "ud800" not in file.read_text():  # which no reader of JSON takes
            section = section_of(reproduce, TraceFolder(made))
            assert any("recommend" in line for line in section.parts["commands"])
