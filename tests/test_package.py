"""What holds for the package as a whole: imports go one way, and help comes at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"dask", "distributed", "fsspec", "nltk", "numba", "numpy", "pandas", "scipy", "zarr"}


def loaded_by(program: str) -> set[str]:
    """The heavy packages that a program loads, in a process of its own."""
    report = f"{program}\nimport sys; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, timeout=240, check=True
    )
    return HEAVY & {name.partition(".")[0] for name in done.stdout.splitlines()}


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
