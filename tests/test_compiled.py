"""Compiled kernels outlive their process, but never the source they were made from."""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

import atd_dask
from atd_dask import compiled
from atd_dask.compiled import Store, digest_sources, keep

PACKAGE = Path(atd_dask.__file__).parent

JIT = """
import numba
from atd_dask.compiled import Store, keep
STORE = Store(__file__)
def kernel(function):
    return keep(numba.njit(nogil=True)(function), STORE)
def inner_kernel(function):
    options = dict(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
    return keep(numba.njit(nogil=True, **options)(function), STORE)
"""
HELPER = """
from tiny.jit import inner_kernel
@inner_kernel
def weigh(value):
    return 2 * value
"""
CALLER = """
from tiny.helper import weigh
from tiny.jit import kernel
@kernel
def add_up(values):
    total = 0
    for value in values:
        total += weigh(value)
    return total
"""
# Says what the kernel gives and which kernels were compiled or loaded.
PROGRAM = """
import json, sys
import numpy as np
from tiny.caller import add_up, weigh
if "wait" in sys.argv:
    print("ready", flush=True)
    input()
if "full" in sys.argv:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
total = add_up(np.arange(4))
stats = [kernel.stats for kernel in (add_up, weigh)]
print(json.dumps({
    "total": total,
    "compiled": sum(sum(one.cache_misses.values()) for one in stats),
    "loaded": sum(sum(one.cache_hits.values()) for one in stats),
}))
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A folder with a package of two kernels, one of which calls the other."""
    package = tmp_path / "sources" / "tiny"
    package.mkdir(parents=True)
    files = {"__init__": "", "jit": JIT, "helper": HELPER, "caller": CALLER}
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    return package.parent


def start(tiny: Path, *arguments: str, program: str = PROGRAM) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={
            **{name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
            "ATD_DASK_CACHE": str(tiny.parent / "cache"),
            "PYTHONPATH": str(tiny),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=tiny,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """The report of a process, and its log."""
    try:
        out, log = process.communicate("go\n", timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, log
    return json.loads(out.splitlines()[-1]), log


def run(tiny: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    return finish(start(tiny, *arguments))


COMPILED = {"total": 12, "compiled": 2, "loaded": 0}
LOADED = {"total": 12, "compiled": 0, "loaded": 1}  # the inner kernel is in the outer one


def list_entries(tiny: Path) -> list[Path]:
    found = (tiny.parent / "cache").rglob("*")
    return sorted(path for path in found if path.is_file() and path.suffix != ".lock")


def test_the_next_process_loads_what_was_compiled(tiny: Path) -> None:
    sources = sorted(tiny.rglob("*"))
    assert run(tiny) == (COMPILED, "")
    assert run(tiny) == (LOADED, "")
    assert sorted(tiny.rglob("*")) == sources
    (folder,) = {entry.parent for entry in list_entries(tiny)}
    assert len(list_entries(tiny)) == 2
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_a_change_in_what_a_kernel_calls_is_seen(tiny: Path) -> None:
    assert run(tiny)[0]["total"] == 12
    helper = tiny / "tiny" / "helper.py"
    before = helper.stat()
    helper.write_text(HELPER.replace("2 * value", "3 * value"))
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(tiny) == ({"total": 18, "compiled": 2, "loaded": 0}, "")


def test_any_source_and_any_setting_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(PACKAGE / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
    known = digest_sources(PACKAGE / "kernels")
    assert digest_sources(kernels) == known
    files = sorted(kernels.rglob("*.py"))
    assert len(files) > 20
    digests = {known}
    for file in files:
        text = file.read_text(encoding="utf-8")
        file.write_text(text + "\n", encoding="utf-8")
        digests.add(digest_sources(kernels))
        file.write_text(text, encoding="utf-8")
    assert len(digests) == len(files) + 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert digest_sources(kernels) == known
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert digest_sources(kernels) != known


def test_kernels_import_nothing_that_the_digest_does_not_see() -> None:
    """A number that is imported from elsewhere would be compiled in."""
    for file in (PACKAGE / "kernels").rglob("*.py"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.lstrip().startswith(("from atd_dask", "import atd_dask")):
                inside = line.split()[1].startswith("atd_dask.kernels")
                assert inside or line == "from atd_dask.compiled import Store, keep", line


def test_only_kernels_call_kernels_without_an_entry_point_for_python() -> None:
    """Calling one from Python ends the process."""
    compiled = {"kernel", "helper_kernel", "inner_kernel", "bound_kernel"}
    inner: set[str] = set()
    callers: list[tuple[str, set[str]]] = []
    for file in (PACKAGE / "kernels").rglob("*.py"):

        def spell(name: str, module: str = file.stem) -> str:
            return f"{module}.{name}" if name.startswith("_") else name

        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            marks = {mark.id for mark in function.decorator_list if isinstance(mark, ast.Name)}
            if marks & (compiled - {"kernel"}):
                inner.add(spell(function.name))
            if not marks & compiled:
                calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                names = {spell(call.id) for call in calls if isinstance(call, ast.Name)}
                callers.append((f"{file.name}: {function.name}", names))
    assert {"enlarge", "fit_document"} <= inner
    assert not [(caller, names & inner) for caller, names in callers if names & inner]


def test_the_kernels_of_the_package_leave_nothing_beside_it(tmp_path: Path) -> None:
    """A folder of compiled code there would outlive an uninstall."""
    sources = tmp_path / "sources"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, sources / "atd_dask", ignore=ignored)
    before = sorted(sources.rglob("*"))
    program = (
        "import json, numpy as np\n"
        "from atd_dask.kernels import passes\n"
        f"assert passes.__file__.startswith({str(sources)!r})\n"
        "passes.add_up(np.ones(2))\n"
        "print(json.dumps(sum(passes.add_up.stats.cache_misses.values())))"
    )
    assert finish(start(sources, program=program)) == (1, "")
    assert finish(start(sources, program=program)) == (0, "")
    assert sorted(sources.rglob("*")) == before
    assert len(list_entries(sources)) == 1


def test_sources_that_change_under_a_process_are_not_mistaken(tiny: Path) -> None:
    process = start(tiny, "wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    helper = tiny / "tiny" / "helper.py"
    helper.write_text(HELPER.replace("2 * value", "3 * value"))
    assert finish(process) == (COMPILED, "")
    assert list_entries(tiny) == []


def test_two_processes_that_start_together_compile_once(tiny: Path) -> None:
    processes = [start(tiny, "wait") for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    reports = [finish(process)[0] for process in processes]
    assert sorted(report["compiled"] for report in reports) == [0, 2]
    assert {report["total"] for report in reports} == {12}


def test_a_full_disk_is_no_harm(tiny: Path) -> None:
    assert run(tiny, "full") == (COMPILED, "")
    assert list_entries(tiny) == []


@pytest.fixture
def module(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module whose compiled code is kept in a folder of this test."""
    monkeypatch.setenv("ATD_DASK_CACHE", str(tiny.parent / "cache"))
    return str(tiny / "tiny" / "jit.py")


@pytest.fixture
def store(module: str) -> Store:
    return Store(module)


def double(x: int) -> int:
    return 2 * x


def is_compiled(store: Store) -> bool:
    """Whether a kernel is compiled, rather than loaded, when it is first called."""
    kernel: Any = keep(numba.njit(double), store)
    assert kernel(2) == 4
    return bool(kernel.stats.cache_misses)


def cut_short(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip_a_bit(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def remove_all(content: bytes) -> bytes:
    return b""


def replace_all(content: bytes) -> bytes:
    """Write what another version would write."""
    return hashlib.sha256(b"nonsense").digest() + b"nonsense"


@pytest.mark.parametrize("damage", [cut_short, flip_a_bit, remove_all, replace_all])
def test_a_damaged_entry_is_made_again(tiny: Path, module: str, damage: Any) -> None:
    assert is_compiled(Store(module))
    assert not is_compiled(Store(module))
    (entry,) = list_entries(tiny)
    entry.write_bytes(damage(entry.read_bytes()))
    assert is_compiled(Store(module))
    assert not is_compiled(Store(module))


def test_a_folder_that_cannot_be_made_is_no_harm(
    tmp_path: Path,
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATD_DASK_CACHE", str(tmp_path / "file"))
    store = Store(module)
    with caplog.at_level(logging.DEBUG, "atd_dask"):
        assert is_compiled(store)
        assert is_compiled(store)
    (record,) = caplog.records
    assert record.levelname == "DEBUG"
    assert "compiled code is not cached" in record.getMessage()


def test_without_a_home_kernels_are_compiled(
    module: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def find_none() -> Path:
        raise RuntimeError("no home")

    for name in ("ATD_DASK_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", find_none)
    with caplog.at_level(logging.DEBUG, "atd_dask"):
        store = Store(module)
        assert is_compiled(store)
    assert store.folder is None
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


@pytest.mark.parametrize("whose", ["others may write", "another's"])
@pytest.mark.parametrize("level", ["kernels", "sources"])
def test_code_that_others_could_have_written_is_not_loaded(
    module: str, store: Store, whose: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert is_compiled(store)
    assert store.folder is not None
    opened = store.folder if level == "sources" else store.folder.parent
    if whose == "others may write":
        opened.chmod(0o770)
    elif os.geteuid() == 0:
        os.chown(opened, 65534, 65534)
    else:
        pytest.skip("needs root, to change the owner of a folder")
    store = Store(module)
    assert is_compiled(store)
    assert is_compiled(store)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert f"{opened} must belong to the user of this process" in record.getMessage()


def test_a_process_that_hangs_is_not_waited_for_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_lock_timeout", 0.2)
    assert store.usable
    hung = [store.lock(name) for name in ("first", "second")]
    assert None not in hung
    assert store.lock("first") is None
    monkeypatch.setattr(compiled, "POLL_SECONDS", 1e9)  # whoever waits now waits for ever
    assert store.lock("second") is None
    for handle in hung:
        assert handle is not None
        store.unlock(handle)
    free = store.lock("second")
    assert free is not None
    store.unlock(free)


def test_a_lock_that_is_held_tells_of_compiling(store: Store) -> None:
    assert store.usable
    assert not store.is_compiling()
    handle = store.lock("kernel")
    assert handle is not None
    assert store.is_compiling()
    store.unlock(handle)
    assert not store.is_compiling()


def test_what_cannot_be_compiled_leaves_no_lock(store: Store) -> None:
    wrong = keep(numba.njit(lambda x: x.nothing_of_this_name), store)
    with pytest.raises(TypingError, match="nothing_of_this_name"):
        wrong(np.arange(2))
    assert store.folder is not None
    (lock,) = store.folder.iterdir()
    assert lock.suffix == ".lock"
    handle = store.lock(lock.stem)
    assert handle is not None
    store.unlock(handle)


def test_code_of_other_sources_is_removed_when_nobody_uses_it(store: Store) -> None:
    assert store.folder is not None
    parent = store.folder.parent
    old = time.time() - 31 * 86400
    for name, used in (("0" * 32, old), ("1" * 32, time.time()), ("something else", old)):
        (parent / name).mkdir(parents=True, mode=0o700)
        (parent / name / "entry").write_text("")
        os.utime(parent / name, (used, used))
    parent.chmod(0o700)
    assert store.usable
    left = {"1" * 32, "something else", store.folder.name}
    assert {folder.name for folder in parent.iterdir()} == left


def test_use_is_noted(module: str, store: Store) -> None:
    assert store.usable
    assert store.folder is not None
    os.utime(store.folder, (0, 0))
    assert Store(module).usable
    assert store.folder.stat().st_mtime > time.time() - 3600


def test_a_function_that_is_not_compiled_stays_as_it_is(store: Store) -> None:
    """As with NUMBA_DISABLE_JIT."""

    def plain(x: int) -> int:
        return x

    assert keep(plain, store) is plain
