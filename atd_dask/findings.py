"""`Findings`: what a search found, for use from Python."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from atd_dask.distribution.engine.runner import Runner
from atd_dask.distribution.newwords import admit_new_words
from atd_dask.errors import InputError
from atd_dask.evaluation.scores import DocumentScores, score_documents
from atd_dask.kernels.alternative import NullContext
from atd_dask.kernels.fitters import Fitter
from atd_dask.report.numbers import count, show_p_value
from atd_dask.report.sentences import say_found, say_verdict
from atd_dask.result_types import ClusterResult, CopyGroup, Result
from atd_dask.stages.shown_texts import find_tokeniser, read_shown_texts
from atd_dask.storage.corpus import CorpusStore
from atd_dask.storage.models import read_model
from atd_dask.storage.representatives import with_all_words
from atd_dask.storage.run_layout import RunLayout
from atd_dask.storage.runs import read_result
from atd_dask.storage.stage_notes import read_skipped
from atd_dask.text.passages import Piece, mark_words

SHOWN_WORDS = 8
SHOWN_PASSAGES = 3
FRAMES = ("pandas", "polars", "pyarrow")
# Works on light and on dark pages; the browser's own yellow glares on dark ones.
MARK = "background: rgba(255, 190, 0, 0.35); color: inherit"


@dataclass(frozen=True)
class Member:
    """A document of a cluster."""

    id: str
    row: int  # in the batch
    share: float  # of the document that the new topic explains
    labels: tuple[str, ...]
    copies: tuple[str, ...]  # ids of its near-duplicates in the batch


@dataclass(frozen=True)
class Repeats:
    """In which repeats, with other null models, a cluster was found."""

    found: int  # number of repeats that found it
    of: int
    p_values: tuple[float | None, ...]  # one per repeat, None if it has no such cluster
    shown: int  # the repeat whose documents and words these are, from 1


@dataclass(frozen=True)
class Cluster:
    """Documents that share an unusual topic."""

    number: int
    significant: bool
    p_value: float  # the one that decides; with repeats, over all of them
    support: float | None
    members: tuple[Member, ...]  # surest first
    words: tuple[str, ...]  # that the topic makes more likely, most telling first
    repeats: Repeats | None = None  # None if detection ran once

    def __len__(self) -> int:
        return len(self.members)

    @property
    def documents(self) -> tuple[str, ...]:
        """The ids of its documents."""
        return tuple(member.id for member in self.members)

    def __repr__(self) -> str:
        what = "cluster" if self.significant else "candidate that is not significant"
        words = ", ".join(self.words[:SHOWN_WORDS])
        repeats = (
            ""
            if self.repeats is None
            else f"; in {self.repeats.found} of {self.repeats.of} repeats"
        )
        size = count(len(self), "document")
        return f"<{what}: {size} about {words}; p = {self.p_value:.2g}{repeats}>"


class Findings:
    """The result of a search, and the folder it is in.

    `atd_dask.find` returns one, and `Findings.load` reads one from the folder of any run.

    Attributes
    ----------
    clusters : tuple of Cluster
        The significant clusters.
    candidates : tuple of Cluster
        The clusters, followed by the candidates that are not significant.
    copies : tuple of CopyGroup
        Groups of near-duplicates without a match among normal documents.
    result : Result
        The content of `result.json`.
    skipped : dict
        How many documents of `normal`, `validation` and `batch` were skipped, by reason.

    Examples
    --------
    >>> import os, tempfile
    >>> from random import Random
    >>> import atd_dask
    >>> random = Random(1)
    >>> def write(words):
    ...     return " ".join(random.choices(words.split(), k=30))
    >>> normal = [write("the quick brown fox jumps over lazy dogs") for _ in range(200)]
    >>> batch = [write("the quick brown fox jumps over lazy dogs") for _ in range(40)]
    >>> found = atd_dask.find(normal, batch, progress=False)
    >>> found.clusters
    ()
    >>> found.scores().shape
    (40, 5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found.save(os.path.join(folder, "kept"))
    ...     atd_dask.Findings.load(os.path.join(folder, "kept")).result == found.result
    True
    """

    def __init__(self, folder: str, *, backend: Any = None, scratch: Path | None = None) -> None:
        """Read the run in `folder`; `scratch` is removed along with the findings."""
        self.folder, self._layout = folder, RunLayout(folder)
        self._backend = backend
        if scratch is not None:
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        result = read_result(folder)
        if result is None:
            raise InputError(f"findings must be the folder of a finished run, got {folder!r}")
        self.result: Result = result

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Findings:
        """Read saved findings, or those of any finished run.

        Parameters
        ----------
        path
            The folder that `save` wrote, or the output folder of a run.

        Returns
        -------
        Findings

        Raises
        ------
        InputError
            If the folder has no finished run.
        """
        return cls(os.fspath(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copy everything to a new folder, which commands accept as a run.

        Parameters
        ----------
        path
            A folder that does not exist yet.

        Raises
        ------
        InputError
            If the folder exists.
        """
        if Path(path).exists():
            raise InputError(f"findings must be saved in a new folder, {os.fspath(path)!r} exists")
        shutil.copytree(self.folder, path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the report, a page of HTML.

        Parameters
        ----------
        path
            The file to write.
        """
        page = Path(self._layout.report)
        if not page.exists():
            from atd_dask.pipelines.report import write_report

            write_report(self.folder)
        shutil.copyfile(page, path)

    @cached_property
    def candidates(self) -> tuple[Cluster, ...]:
        """The clusters, followed by the candidates that are not significant."""
        return tuple(map(_read_cluster, self.result.clusters))

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The significant clusters, in the order in which they were found."""
        return tuple(cluster for cluster in self.candidates if cluster.significant)

    @property
    def copies(self) -> tuple[CopyGroup, ...]:
        """Groups of near-duplicates in the batch, without a match among normal documents."""
        return self.result.copy_groups

    def to_frame(self) -> Any:
        """Return the documents of the clusters as a DataFrame.

        Returns
        -------
        DataFrame
            A row for each document, with the columns `cluster`, `id`, `row`, `share` and `odds`, in
            the kind of DataFrame that was passed to `find`, or else in one that is installed.
        """
        scores = self._scores
        rows = [
            (cluster.number, member.id, member.row, member.share, float(scores.odds[member.row]))
            for cluster in self.clusters
            for member in cluster.members
        ]
        names = ("cluster", "id", "row", "share", "odds")
        return self._make_frame({name: [row[i] for row in rows] for i, name in enumerate(names)})

    @cached_property
    def skipped(self) -> dict[str, dict[str, int]]:
        """How many documents of `normal`, `validation` and `batch` were skipped, by reason."""
        names = {"train": "normal", "test": "batch"}
        return {names.get(part, part): why for part, why in read_skipped(self.folder).items()}

    def scores(self) -> Any:
        """Return scores for all documents of the batch as a DataFrame.

        Returns
        -------
        DataFrame
            A row for each document, with the columns `id`, `surprise`, `novelty`, `cluster` and
            `odds`. `surprise` is how badly the null model explains the document, in nats per word,
            and `novelty` the share of normal documents that surprise less; a document without known
            words has neither. `odds` are those of belonging to `cluster`, the nearest one.
        """
        scores = self._scores
        numbers = [cluster.number for cluster in self.clusters]
        return self._make_frame(
            {
                "id": list(self._test.ids()),
                "surprise": scores.surprise,
                "novelty": scores.novelty,
                "cluster": [numbers[n] if n >= 0 else None for n in scores.nearest.tolist()],
                "odds": scores.odds,
            }
        )

    @cached_property
    def _test(self) -> CorpusStore:
        return CorpusStore.open(self._layout.corpus("test"))

    @cached_property
    def _scores(self) -> DocumentScores:
        train, normal = (
            CorpusStore.open(self._layout.corpus(part)) for part in ("train", "validation")
        )
        batch = with_all_words(self._test, train.unseen_words)
        table = read_model(self._layout.model).table
        runner = Runner()
        table = admit_new_words(runner, table, batch, train)
        rows = [[member.row for member in cluster.members] for cluster in self.clusters]
        return score_documents(runner, Fitter(NullContext.of(table)), batch, normal, rows)

    def _make_frame(self, columns: Mapping[str, Any]) -> Any:
        import narwhals.stable.v1 as nw

        backend: Any = self._backend or _find_backend()
        return nw.from_dict(dict(columns), backend=backend).to_native()

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The texts of the first documents of each candidate, if texts are kept."""
        return read_shown_texts(self.folder, self.result)

    @cached_property
    def _tokeniser(self) -> Any:
        return find_tokeniser(self._test)

    def _summarise(self) -> str:
        clusters = self.clusters
        failed = [len(cluster) for cluster in self.candidates if not cluster.significant]
        searched = any(cluster.search_p_value is not None for cluster in self.result.clusters)
        phrases = say_verdict(
            self.result.corpus["test"].documents,
            [(len(cluster), cluster.words) for cluster in clusters],
            failed[0] if failed else None,
            searched,
            next((say_found(c) for c in self.result.clusters if not c.significant), ""),
        )
        n_skipped = sum(self.skipped.get("batch", {}).values())
        remark = f" {count(n_skipped, 'document')} of the batch cannot be used: see skipped."
        return "".join(phrase.text for phrase in phrases) + (remark if n_skipped else "")

    def __repr__(self) -> str:
        return self._summarise().replace("\xa0", " ")

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{escape(self._summarise())}</strong></p>"]
        parts += [self._show_cluster(cluster) for cluster in self.clusters]
        failed = [cluster for cluster in self.candidates if not cluster.significant]
        if failed:
            rows = "".join(f"<li>{escape(repr(cluster)[1:-1])}</li>" for cluster in failed)
            parts.append(
                f"<details><summary>{count(len(failed), 'candidate')} not significant</summary>"
                f"<ul>{rows}</ul></details>"
            )
        if self.copies:
            parts.append(f"<p>{count(len(self.copies), 'group')} of near-duplicates.</p>")
        return f"<div>{''.join(parts)}</div>"

    def _show_cluster(self, cluster: Cluster) -> str:
        words = ", ".join(map(escape, cluster.words[:SHOWN_WORDS]))
        passages = "".join(
            f"<li><code>{escape(member.id)}</code> {self._show_passage(cluster, member)}</li>"
            for member in cluster.members[:SHOWN_PASSAGES]
        )
        repeats = cluster.repeats
        found = "" if repeats is None else f", found in {repeats.found} of {repeats.of} repeats"
        return (
            f"<h4>{cluster.number}. {words}</h4>"
            f"<p>{count(len(cluster), 'document')}, p = {show_p_value(cluster.p_value)}{found}</p>"
            f"<ul>{passages}</ul>"
        )

    def _show_passage(self, cluster: Cluster, member: Member) -> str:
        text = self._texts.get(member.row)
        if text is None or self._tokeniser is None:
            return ""
        listed = next(c for c in self.result.clusters if c.index == cluster.number)
        kinds = {word.word: "more" for word in listed.raised_words}
        passage = mark_words(text, self._tokeniser.locate(text), kinds)
        return "".join(map(_show_piece, passage.excerpt))


def _read_cluster(cluster: ClusterResult) -> Cluster:
    repeats = cluster.repeats
    return Cluster(
        cluster.index,
        cluster.significant,
        cluster.deciding_p_value if repeats is None else repeats.p_value,
        cluster.support,
        tuple(
            Member(
                document.id,
                document.row,
                document.share,
                document.labels,
                tuple(copy.id for copy in document.all_copies),
            )
            for document in cluster.documents
        ),
        tuple(word.form for word in cluster.raised_words),
        None
        if repeats is None
        else Repeats(repeats.found, repeats.of, repeats.p_values, repeats.shown),
    )


def _show_piece(piece: Piece) -> str:
    text = escape(piece.text)
    return f'<mark style="{MARK}">{text}</mark>' if piece.kind else text


def _find_backend(names: Sequence[str] = FRAMES) -> str:
    for name in names:
        try:
            import_module(name)
        except ImportError:
            continue
        return name
    raise InputError(f"a DataFrame needs one of {', '.join(names)}, but none is installed")
