"""One call from documents to an answer: is there a group that does not belong?"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from atd_dask.cli.outputs import NotebookLine, make_progress
from atd_dask.config.loader import load
from atd_dask.distribution.engine.clients import connect_to_threads
from atd_dask.distribution.engine.warming import compile_apart
from atd_dask.distribution.rehearsal import compile_detection, compile_topic
from atd_dask.errors import InputError
from atd_dask.estimators.given import Columns, Given, write_given
from atd_dask.findings import Findings
from atd_dask.progress import Progress, PythonWarnings
from atd_dask.storage.ownership import claim_folder

if TYPE_CHECKING:
    from atd_dask.distribution.engine.clients import Client


def find(
    normal: Any,
    batch: Any,
    *,
    validation: Any = None,
    text: str | None = None,
    id: str | None = None,
    labels: str | None = None,
    vocabulary: Any = None,
    random_state: int = 1,
    settings: Mapping[str, Any] | None = None,
    client: Client | None = None,
    progress: bool | None = None,
    output: str | os.PathLike[str] | None = None,
) -> Findings:
    """Looks for groups of documents in `batch` that share a topic which `normal` documents lack.

    Documents are a list of strings, a DataFrame or Series (pandas, polars and others), an Arrow
    table, a `datasets.Dataset`, a Dask bag or DataFrame, a matrix of counts, a `CorpusStore`, or
    the path of a file or folder. `text`, `id` and `labels` name the columns of a table.
    `vocabulary` names the columns of a matrix: words in their order, or a fitted `CountVectorizer`.

    `validation` has further normal documents; otherwise a tenth of `normal` is set aside.
    `settings` are sections of a configuration: `{"corpus": {"text": {"min_letters": 2}}}`.
    With `client` the work is done on its Dask cluster, whose workers must reach the folder
    `output`; otherwise by threads of this process. Results are the same, byte for byte, and the
    same as those of the command on the same documents.

    Progress is shown on a terminal and in a notebook, unless `progress` says otherwise. Without an
    `output` folder everything is in a temporary one, as long as the findings are in use.
    """
    columns = Columns(text, id, labels)
    parts = {"train": normal, "validation": validation, "test": batch}
    folder = Path(mkdtemp(prefix="atd-dask-") if output is None else output)
    scratch = folder if output is None else None
    try:
        claim_folder(str(folder))
        given = _write_parts(parts, columns, vocabulary, folder / "documents")
        sources = {part: one.source for part, one in given.items()}
        conf = _write_configuration(folder, random_state, sources, settings or {})
        compiling = (
            compile_apart(compile_detection, compile_topic)
            if client is None
            else nullcontext(False)
        )
        with (
            compiling as apart,
            _hush(),
            _choose_progress(progress) as told,
            _choose_client(client) as chosen,
        ):
            from atd_dask.pipelines.run import run

            run(load(conf, warn=told.warn), chosen, told, warms=not apart)
        return Findings(str(folder / RUN), backend=given["test"].backend, scratch=scratch)
    except BaseException:
        if scratch is not None:
            rmtree(scratch, ignore_errors=True)
        raise


RUN = "run"  # the folder of the run

# What a part is called by the one who gives it.
NAMES = {"train": "normal", "validation": "validation", "test": "batch"}


def _write_parts(
    parts: Mapping[str, Any], columns: Columns, vocabulary: Any, folder: Path
) -> dict[str, Given]:
    folder.mkdir(parents=True, exist_ok=True)
    return {
        part: write_given(documents, NAMES[part], columns, vocabulary, folder)
        for part, documents in parts.items()
        if documents is not None
    }


def _write_configuration(
    folder: Path, seed: int, sources: Mapping[str, Any], settings: Mapping[str, Any]
) -> Path:
    """The configuration with which the command would do the same; JSON is YAML."""
    tree = _merge({"name": "find", "seed": seed, "output": str(folder / RUN)}, settings)
    tree["corpus"] = _merge(sources, tree.get("corpus", {}))
    conf = folder / "find.yaml"
    try:
        conf.write_text(json.dumps(tree, indent=1), encoding="ascii")
    except TypeError as error:
        raise InputError(f"settings must be plain values: {error}") from None
    return conf


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both, section by section; where they differ, the second one decides."""
    merged = dict(first)
    for key, value in second.items():
        mine = merged.get(key)
        both = isinstance(mine, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(mine, value) if both else value  # type: ignore[arg-type]
    return merged


@contextmanager
def _choose_progress(progress: bool | None) -> Iterator[Progress]:
    """On a terminal and in a notebook somebody is waiting."""
    shell = sys.modules.get("IPython")
    notebook = shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
    if progress is False or (progress is None and not notebook and not sys.stderr.isatty()):
        yield Progress(PythonWarnings(), quiet=True)
    elif notebook:
        line = NotebookLine()
        yield Progress(line)
        line.clear()
    else:
        yield make_progress()


@contextmanager
def _choose_client(client: Client | None) -> Iterator[Client]:
    """The given client, or one of threads in this process."""
    if client is not None:
        yield client
        return
    with connect_to_threads() as threads:
        yield threads


@contextmanager
def _hush() -> Iterator[None]:
    """Keeps Dask's advice on how it is used from those who do not use it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield
