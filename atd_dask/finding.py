"""`find`: one call from documents to the groups that do not belong."""

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

import numpy as np

from atd_dask.cli.outputs import NotebookLine, make_progress
from atd_dask.config.inputs import expand_home
from atd_dask.config.loader import load
from atd_dask.distribution.engine.clients import check_client, connect_to_threads
from atd_dask.distribution.engine.warming import compile_apart
from atd_dask.distribution.rehearsal import choose_rehearsal, compile_topic
from atd_dask.errors import InputError
from atd_dask.estimators.base import check_whole
from atd_dask.estimators.given import Columns, Given, write_given
from atd_dask.findings import Findings
from atd_dask.json_records import Json, JsonObject
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
    settings: Mapping[str, Json] | None = None,
    client: Client | None = None,
    progress: bool | None = None,
    output: str | os.PathLike[str] | None = None,
) -> Findings:
    """Find groups of documents in a batch that share a topic which normal documents lack.

    Parameters
    ----------
    normal, batch
        The normal documents, and the documents to check: lists of strings, DataFrames or Series
        (pandas, polars and others), Arrow tables, `datasets.Dataset`, Dask bags or DataFrames,
        matrices of counts, `CorpusStore`, or paths of files, folders or globs.
    validation
        More normal documents. By default a tenth of `normal` is held out.
    text, id, labels
        The columns of a table that have the text, the id and the labels.
    vocabulary
        The words that name the columns of a matrix of counts, or the fitted `CountVectorizer` that
        made it.
    random_state
        The seed. The same documents, settings and seed give the same bytes.
    settings
        Sections of a configuration, such as `{"corpus": {"text": {"min_letters": 2}}}`.
    client
        A Dask client whose cluster does the work; its workers must have access to `output`. By
        default threads of this process do the work. The result is the same, and the same as that
        of the command.
    progress
        Whether to show progress. By default it is shown in a terminal and in a notebook.
    output
        The folder to write to. By default a temporary folder, which is removed along with the
        findings.

    Returns
    -------
    Findings
        The significant clusters, and everything else the search found.

    Raises
    ------
    UserError
        If the documents or a setting cannot be used: a subclass says which.

    Examples
    --------
    Normal documents are about cars or cakes, and 12 documents of the batch are about volcanoes:

    >>> from random import Random
    >>> import atd_dask
    >>> random = Random(1)
    >>> topics = ["engine wheel brake tyre gear road driver clutch petrol motor",
    ...           "flour butter sugar oven bake cake dough egg cream vanilla",
    ...           "volcano lava eruption ash crater magma plume seismic summit island"]
    >>> usual = "today people thing great small large place time week report many first last"
    >>> def write(topic):
    ...     words = random.choices(topics[topic].split(), k=15)
    ...     return " ".join(words + random.choices(usual.split(), k=15))
    >>> normal = [write(number % 2) for number in range(300)]
    >>> batch = [write(number % 2) for number in range(80)] + [write(2) for _ in range(12)]
    >>> found = atd_dask.find(normal, batch, progress=False)
    >>> [cluster] = found.clusters
    >>> sorted(map(int, cluster.documents))
    [80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91]
    >>> set(cluster.words[:5]) <= set(topics[2].split())
    True
    """
    _check_arguments(random_state, settings, client)
    columns = Columns(text, id, labels)
    parts = {"train": normal, "validation": validation, "test": batch}
    folder = Path(mkdtemp(prefix="atd-dask-") if output is None else expand_home(output))
    scratch = folder if output is None else None
    try:
        claim_folder(str(folder))
        given = _write_parts(parts, columns, vocabulary, folder / "documents")
        sources = {part: one.source for part, one in given.items()}
        conf = _write_configuration(folder, random_state, sources, settings or {})
        with _ignoring_graph_size(), _choose_progress(progress) as reporter:
            config = load(conf, warn=reporter.warn)
            compiling = (
                compile_apart(choose_rehearsal(config.detection.settle), compile_topic)
                if client is None
                else nullcontext(False)
            )
            with compiling as apart, _choose_client(client) as chosen:
                from atd_dask.pipelines.run import run

                run(config, chosen, reporter, warms=not apart)
        return Findings(str(folder / RUN), backend=given["test"].backend, scratch=scratch)
    except BaseException:
        if scratch is not None:
            rmtree(scratch, ignore_errors=True)
        raise


def _check_arguments(
    random_state: int, settings: Mapping[str, Json] | None, client: Client | None
) -> None:
    check_whole("random_state", random_state, 0)
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError(
            "settings must be a mapping of sections of a configuration, got"
            f" {type(settings).__name__}"
        )
    if settings and "output" in settings:
        raise InputError("settings must not name the output: pass output= instead")
    check_client(client)


RUN = "run"  # the folder of the run

# The argument that a part is passed as.
NAMES = {"train": "normal", "validation": "validation", "test": "batch"}


def _write_parts(
    parts: Mapping[str, Any], columns: Columns, vocabulary: Any, folder: Path
) -> dict[str, Given]:
    folder.mkdir(parents=True, exist_ok=True)
    return {
        part: write_given(documents, NAMES[part], columns, vocabulary, folder)
        for part, documents in parts.items()
        if documents is not None or part != "validation"
    }


def _write_configuration(
    folder: Path, seed: int, sources: Mapping[str, Json], settings: Mapping[str, Json]
) -> Path:
    """Write the configuration for which the command does the same; JSON is valid YAML."""
    ours: JsonObject = {"name": "find", "seed": seed, "output": str(folder / RUN)}
    tree = _merge(ours | {"corpus": dict(sources)}, settings)
    conf = folder / "find.yaml"
    try:
        conf.write_text(json.dumps(tree, indent=1, default=_as_plain), encoding="ascii")
    except TypeError as error:
        raise InputError(f"settings must be plain values: {error}") from None
    return conf


def _as_plain(value: Any) -> Any:
    """Return the plain value of a number of NumPy."""
    if not isinstance(value, np.generic):
        raise TypeError(f"got {type(value).__name__}")
    return value.item()


def _merge(first: Mapping[str, Json], second: Mapping[str, Json]) -> JsonObject:
    """Merge two configurations section by section; the second one takes precedence."""
    merged = dict(first)
    for key, value in second.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


@contextmanager
def _choose_progress(progress: bool | None) -> Iterator[Progress]:
    """Show progress in a terminal and in a notebook, unless `progress` says otherwise."""
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
    """Yield the given client, or one that uses threads of this process."""
    if client is not None:
        yield client
        return
    with connect_to_threads() as threads:
        yield threads


@contextmanager
def _ignoring_graph_size() -> Iterator[None]:
    """Silence Dask's warning about large graphs: callers of `find` never see the graph."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield
