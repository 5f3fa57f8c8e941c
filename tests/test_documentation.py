"""The pages are right: links lead somewhere, and commands, options, keys and paths exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest
import yaml

from atd_dask.cli.command import atd
from atd_dask.config.loader import RENAMED, RULES, describe_keys
from atd_dask.config.run_config import RunConfig
from atd_dask.version import __version__

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("atd_dask", "conf", "deploy", "pipelines", "tests")
MOST_LINES = 150  # of the README

# Marked blocks that `.ci/run` and `.ci/follow` execute, and the pages where they look for them.
BLOCKS = {
    "try": "README.md",
    "own": "README.md",
    "python": "README.md",
    "kmeans": "atd_dask/README.md",
    "test": "tests/README.md",
}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
OPTION = re.compile(r"--[a-z][a-z-]*")
KEY = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+\.(?:cff|ipynb|json|md|py|toml|txt|yaml)")

# What ends a command on a line of a shell.
ENDS = {"&&", "||", "|", ";", "#"}

# Options of other programs that stand by themselves.
FOREIGN = {"--dependency"}

# Paths that exist only where a job has run or a tool was started.
MADE = ("runs/", "sweeps/", "repeats/")


def list_pages() -> list[Path]:
    """Every page of the project; linked ones only once."""
    pages = list(ROOT.glob("*.md"))
    for folder in FOLDERS:
        pages += (ROOT / folder).rglob("*.md")
    return sorted({page.resolve() for page in pages})


PAGES = [page.relative_to(ROOT).as_posix() for page in list_pages()]
every_page = pytest.mark.parametrize("page", PAGES)


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return SPAN.sub("", FENCE.sub("", text))


def list_code(text: str) -> list[str]:
    """Spans of code, and the lines of blocks; a line that ends in a backslash is continued."""
    lines = [
        line for _, block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()
    ]
    return [*lines, *SPAN.findall(FENCE.sub("", text))]


def list_anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    anchors: dict[str, int] = {}
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        n_before = anchors.get(anchor, 0)
        anchors[anchor] = n_before + 1
        found.add(f"{anchor}-{n_before}" if n_before else anchor)
    return found


@cache
def find_commands() -> dict[str, frozenset[str]]:
    """The options of each command, by its full name; `` is `atd-dask` itself."""
    commands: dict[str, frozenset[str]] = {}

    def walk(command: click.Command, name: str) -> None:
        options = {"--help"}
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                options.update(parameter.opts, parameter.secondary_opts)
        commands[name] = frozenset(options)
        if isinstance(command, click.Group):
            for part, one in command.commands.items():
                walk(one, f"{name} {part}".strip())

    walk(atd, "")
    return commands


class Call(NamedTuple):
    """A command as a page has it: the words from its name on, without those that follow its end."""

    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The longest name of a command that the words begin with."""
        name = ""
        for word in self.words:
            longer = f"{name} {word}".strip()
            if longer not in find_commands():
                break
            name = longer
        return name

    @property
    def problem(self) -> str | None:
        name, commands = self.command, find_commands()
        rest = self.words[len(name.split()) :]
        is_group = not name or any(other.startswith(f"{name} ") for other in commands)
        if is_group and rest and not rest[0].startswith("-"):
            return f"{' '.join(self.words)}: there is no command {rest[0]!r}"
        for word in rest:
            option = OPTION.match(word)
            if option is not None and option.group() not in commands[name]:
                return f"{' '.join(self.words)}: there is no option {option.group()}"
        return None


def find_calls(code: str) -> Iterator[Call]:
    words = code.replace("$ ", "").split()
    for index, word in enumerate(words):
        if word != "atd-dask":
            continue
        call: list[str] = []
        for following in words[index + 1 :]:
            if following in ENDS:
                break
            call.append(following.rstrip(";"))
        yield Call(tuple(call))


def test_all_pages_are_looked_at() -> None:
    folders = {f"{folder}/README.md" for folder in FOLDERS}
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", *folders} <= set(PAGES)


def test_the_readme_is_short() -> None:
    n_lines = len(read("README.md").splitlines())
    assert n_lines <= MOST_LINES, f"README.md has {n_lines} lines: move some to the page beside it"


@every_page
def test_links_lead_somewhere(page: str) -> None:
    lost = []
    for link in LINK.findall(without_code(read(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (
            anchor and anchor not in list_anchors(target.read_text("utf-8"))
        ):
            lost.append(link)
    assert lost == []


@every_page
def test_commands_and_their_options_exist(page: str) -> None:
    calls = [call for code in list_code(read(page)) for call in find_calls(code)]
    assert [call.problem for call in calls if call.problem] == []


@every_page
def test_options_that_stand_alone_exist(page: str) -> None:
    known = frozenset().union(*find_commands().values()) | FOREIGN
    spans = SPAN.findall(FENCE.sub("", read(page)))
    options = {option for span in spans if span.startswith("--") for option in OPTION.findall(span)}
    assert sorted(options - known) == []


@every_page
def test_keys_of_the_configuration_exist(page: str) -> None:
    keys = {entry.key for entry in describe_keys(RunConfig, RULES)} | set(RENAMED)
    # Those of the other parts are told once, for train.
    for part in ("validation", "test"):
        train = [key for key in keys if key.startswith("corpus.train.")]
        keys |= {key.replace("corpus.train.", f"corpus.{part}.") for key in train}
    sections = {key.partition(".")[0] for key in keys if "." in key}
    unknown = [
        named.group()
        for span in SPAN.findall(FENCE.sub("", read(page)))
        if (named := re.match(KEY, span.removeprefix("--set ")))
        and named.group().partition(".")[0] in sections
        and not named.group().endswith((".json", ".yaml", ".zarr"))
        and named.group() not in keys
    ]
    assert unknown == []


@every_page
def test_paths_exist(page: str) -> None:
    places = (ROOT, ROOT / "atd_dask", (ROOT / page).parent)
    lost = [
        span
        for span in SPAN.findall(FENCE.sub("", read(page)))
        if PATH.fullmatch(span)
        and not span.startswith(MADE)
        and not any((place / span).exists() for place in places)
    ]
    assert lost == []


@pytest.mark.parametrize(("mark", "page"), BLOCKS.items())
def test_marked_blocks_are_where_the_scripts_look(mark: str, page: str) -> None:
    homes = [other for other in PAGES if f"<!-- {mark} -->" in read(other)]
    assert homes == [page]
    block = read(page).partition(f"<!-- {mark} -->")[2].partition(f"<!-- /{mark} -->")[0]
    assert FENCE.fullmatch(block.strip()), f"between the marks of {mark} must be one block of code"


@every_page
def test_python_compiles(page: str) -> None:
    for language, block in FENCE.findall(read(page)):
        if language == "python":
            compile(block, page, "exec")


def test_figures_name_the_command_that_makes_them() -> None:
    figures = read("atd_dask/README.md").partition("\n## Figures\n")[2]
    sections = figures.split("\n### ")[1:]
    assert len(sections) >= 7
    for section in sections:
        named = {call.command for code in list_code(section) for call in find_calls(code)}
        assert any(name.startswith(("bench ", "reproduce")) for name in named), section[:80]


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    authors = [author["family-names"] for author in citation["preferred-citation"]["authors"]]
    assert authors == ["Soleimani", "Miller"]


def test_no_picture_is_part_of_the_package() -> None:
    assert list((ROOT / "atd_dask").rglob("*.png")) == []


def test_a_wrong_page_would_be_noticed() -> None:
    wrong = ["atd-dask rum x.yaml", "atd-dask run --fersh x.yaml", "atd-dask bench speed --short"]
    right = ["atd-dask run x.yaml --fresh && pytest --fast", "pip install atd-dask", "atd-dask"]
    assert all(call.problem for code in wrong for call in find_calls(code))
    assert not any(call.problem for code in right for call in find_calls(code))
    assert list_anchors("# The paper's *tables*\n## A\n## A\n") == {"the-papers-tables", "a", "a-1"}


def test_tests_that_a_page_names_exist() -> None:
    named = {span for span in SPAN.findall(read("tests/README.md")) if span.startswith("test_")}
    named = {span for span in named if not span.endswith(".py")}
    source = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert named
    assert [name for name in sorted(named) if f"def {name}(" not in source] == []
