"""The package as a whole: imports go one way, help is instant, signatures are short."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"dask", "distributed", "fsspec", "nltk", "numba", "numpy", "pandas", "scipy", "zarr"}


def modules_of(program: str) -> set[str]:
    """The modules that a program imports, in a process of its own."""
    report = f"{program}\nimport sys; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, timeout=240, check=True
    )
    return set(done.stdout.splitlines())


def loaded_by(program: str) -> set[str]:
    """The heavy packages that a program imports."""
    return HEAVY & {name.partition(".")[0] for name in modules_of(program)}


@pytest.mark.parametrize(
    "program",
    [
        "import atd_dask",
        "import atd_dask.cli.command",
        "from click.testing import CliRunner\n"
        "from atd_dask.cli.command import atd\n"
        "assert CliRunner().invoke(atd, ['run', '--help']).exit_code == 0",
        "import atd_dask.config.loader, atd_dask.cli.outputs",
        "import atd_dask.distribution.engine.clients",
    ],
)
def test_what_help_needs_is_light(program: str) -> None:
    assert loaded_by(program) == set()


def test_what_every_worker_imports_has_no_more_than_it_needs() -> None:
    # numba looks at the version of SciPy, which costs nothing.
    unneeded = {"nltk", "pandas", "scipy.sparse", "scipy.special", "sklearn"}
    assert modules_of("import atd_dask.pipelines.run").isdisjoint(unneeded)


def test_import_rules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_modules_are_small() -> None:
    for folder in ("atd_dask", "pipelines"):
        for file in (ROOT / folder).rglob("*.py"):
            n_lines = len(file.read_text(encoding="utf-8").splitlines())
            assert n_lines <= 500, f"{file} has {n_lines} lines: look for the seam"


MOST_PARAMETERS = 8
# Functions that take more, and why.
LONG_SIGNATURES = {
    "find": "the public API: options by keyword",
    "ParsimoniousTopicModel.__init__": "scikit-learn's convention: every setting is a parameter",
    "detect": "the driver that everything else goes through",
}


def list_functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module, with the classes that they are in."""
    for node in ast.iter_child_nodes(tree):
        name = f"{inside}{getattr(node, 'name', '')}"
        if isinstance(node, ast.FunctionDef):
            yield name, node
        inner = f"{name}." if isinstance(node, ast.ClassDef) else inside
        yield from list_functions(node, inner)


def count_parameters(function: ast.FunctionDef) -> int:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_signatures_are_short() -> None:
    long = {
        f"{file.relative_to(ROOT)}: {name}": count
        for file, tree in parse_package()
        for name, function in list_functions(tree)
        if (count := count_parameters(function)) > MOST_PARAMETERS and name not in LONG_SIGNATURES
    }
    assert long == {}, "group what belongs together in a named tuple or a dataclass"


# Types that say nothing of what is inside.
OPEN_TYPES = {f"{kind}[str, Any]" for kind in ("dict", "Mapping", "MutableMapping")}
# Where they are right all the same, and why.
OPEN_ANYWAY = {
    "atd_dask/estimators/base.py: Estimator.get_params": "scikit-learn's convention",
    "atd_dask/estimators/text_preparation.py: TextPreparation.get_params": "the same",
    "atd_dask/json_records.py: JsonObject": "the one alias, for the content of files",
}


def list_types(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The types in the signatures and attributes that other modules may use, and in aliases."""
    for name, function in list_functions(tree):
        if not is_private(name):
            given = function.args
            for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.kwarg):
                if one is not None and one.annotation is not None:
                    yield name, one.annotation
            if function.returns is not None:
                yield name, function.returns
    for part in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        for node in part.body:
            if isinstance(node, ast.AnnAssign):
                yield ast.unparse(node.target), node.annotation
                if ast.unparse(node.annotation) == "TypeAlias" and node.value is not None:
                    yield ast.unparse(node.target), node.value
            elif isinstance(node, ast.Assign):  # an alias, or a value in which no type occurs
                yield ast.unparse(node.targets[0]), node.value


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def test_what_passes_between_rooms_has_a_type() -> None:
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for file, tree in parse_package()
        for name, annotation in list_types(tree)
        if not is_private(name)
        and any(ast.unparse(node) in OPEN_TYPES for node in ast.walk(annotation))
    }
    assert found == set(OPEN_ANYWAY), "use a frozen dataclass, a TypedDict or a JsonRecord"


# Modules besides those of storage that know `JsonObject`, and what it is there.
JSON_OBJECTS = {
    "atd_dask/bench/problem_suite.py": "settings of a configuration",
    "atd_dask/bench/sweep_simulation.py": "lines of documents, and of the history",
    "atd_dask/config/run_config.py": "a section of a configuration, for keys of stages",
    "atd_dask/distribution/engine/events.py": "messages between processes",
    "atd_dask/distribution/training.py": "messages between processes",
    "atd_dask/evaluation/problems.py": "problems.json",
    "atd_dask/finding.py": "the configuration that is written",
    "atd_dask/report/links.py": "the configuration in run.json",
    "atd_dask/report/sources.py": "the settings of a model store",
    "atd_dask/run_types.py": "the configuration in run.json",
    "atd_dask/stages/null_model.py": "the settings of a model store",
    "atd_dask/stages/run_record.py": "the configuration in run.json",
    "atd_dask/text/options.py": "the attributes of a corpus store",
    "pipelines/train.py": "the note of the stage",
}


def test_open_json_stays_close_to_files() -> None:
    found = {
        str(file.relative_to(ROOT))
        for file, tree in parse_package()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "JsonObject"
    }
    outside = {name for name in found if not name.startswith("atd_dask/storage/")}
    assert outside - {"atd_dask/json_records.py"} == set(JSON_OBJECTS)


def parse_package() -> Iterator[tuple[Path, ast.Module]]:
    for folder in ("atd_dask", "pipelines"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file, ast.parse(file.read_text(encoding="utf-8"))


def test_every_expected_error_has_a_match() -> None:
    bare = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "pytest.raises"
        and not any(keyword.arg == "match" for keyword in node.keywords)
    ]
    assert bare == []


def test_logs_go_below_the_package() -> None:
    """A user silences the package with `logging.getLogger("atd_dask")`."""
    foreign = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file, tree in parse_package()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("logging.debug", "logging.info", "logging.warning")
    ]
    assert foreign == []


def test_every_dependency_is_imported() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    wanted = {re.split(r"[\s<>=~!;\[]", line)[0] for line in project["dependencies"]}
    imported = set()
    for _, tree in parse_package():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add((node.module or "").partition(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
                imported.add(ast.unparse(node.args[0]).strip("f'\"").partition(".")[0])
    names = {"pyyaml": "yaml"}
    unused = {name for name in wanted if names.get(name, name.replace("-", "_")) not in imported}
    assert unused == set()
