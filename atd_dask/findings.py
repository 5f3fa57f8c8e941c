"""What a search found, as a Python user looks at it."""

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
from atd_dask.text.passages import Piece, mark_words

SHOWN_WORDS = 8
SHOWN_PASSAGES = 3
FRAMES = ("pandas", "polars", "pyarrow")
# Goes with light pages and with dark ones; a browser's own yellow is glaring on the latter.
MARK = "background: rgba(255, 190, 0, 0.35); color: inherit"


@dataclass(frozen=True)
class Member:
    """A document of a cluster."""

    id: str
    row: int  # in the batch
    share: float  # of it that the new topic explains
    labels: tuple[str, ...]
    copies: tuple[str, ...]  # ids of its near-copies in the batch


@dataclass(frozen=True)
class Repeats:
    """What repeats with other null models say of a cluster."""

    found: int  # so many found it
    of: int
    p_values: tuple[float | None, ...]  # of each, none where nothing speaks for it
    shown: int  # the one whose documents and words these are, from 1


@dataclass(frozen=True)
class Cluster:
    """Documents that share an unusual topic, the surest first."""

    number: int
    significant: bool
    p_value: float  # the one that decides, with repeats that of all of them
    support: float | None
    members: tuple[Member, ...]
    words: tuple[str, ...]  # that the topic makes more likely, the most telling first
    repeats: Repeats | None = None  # none where detection was made once

    def __len__(self) -> int:
        return len(self.members)

    @property
    def documents(self) -> tuple[str, ...]:
        """The ids of its documents."""
        return tuple(member.id for member in self.members)

    def __repr__(self) -> str:
        what = "cluster" if self.significant else "candidate that is not significant"
        words = ", ".join(self.words[:SHOWN_WORDS])
        of = (
            ""
            if self.repeats is None
            else f"; in {self.repeats.found} of {self.repeats.of} repeats"
        )
        return f"<{what}: {count(len(self), 'document')} about {words}; p = {self.p_value:.2g}{of}>"


class Findings:
    """The result of a search, with the folder that has all of it.

    Made by `atd_dask.find`, or by `Findings.load` from the folder of any run.
    """

    def __init__(self, folder: str, *, backend: Any = None, scratch: Path | None = None) -> None:
        """`scratch` is removed when nobody refers to the findings any more."""
        self.folder, self._layout = folder, RunLayout(folder)
        self._backend = backend
        if scratch is not None:
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        result = read_result(folder)
        if result is None:
            raise InputError(f"findings must be the folder of a finished run, {folder!r} is none")
        self.result: Result = result

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Findings:
        """Findings that were saved, or the run in a folder."""
        return cls(os.fspath(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keeps everything in the new folder `path`: the command knows it as a run."""
        if Path(path).exists():
            raise InputError(f"findings must be saved in a new folder, {os.fspath(path)!r} exists")
        shutil.copytree(self.folder, path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the page for people to the file `path`."""
        page = Path(self._layout.report)
        if not page.exists():
            from atd_dask.pipelines.report import write_report

            write_report(self.folder)
        shutil.copyfile(page, path)

    @cached_property
    def candidates(self) -> tuple[Cluster, ...]:
        """The clusters, and after them the candidates that are not significant."""
        return tuple(map(_read_cluster, self.result.clusters))

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The significant ones, in the order in which they were found."""
        return tuple(cluster for cluster in self.candidates if cluster.significant)

    @property
    def copies(self) -> tuple[CopyGroup, ...]:
        """Groups of near-copies in the batch that no normal document is a near-copy of."""
        return self.result.copy_groups

    def to_frame(self) -> Any:
        """A row for each document of the batch that is in a cluster: cluster, share, odds. The
        frame is of the kind that the documents came in."""
        scores = self._scores
        rows = [
            (cluster.number, member.id, member.row, member.share, float(scores.odds[member.row]))
            for cluster in self.clusters
            for member in cluster.members
        ]
        names = ("cluster", "id", "row", "share", "odds")
        return self._make_frame({name: [row[i] for row in rows] for i, name in enumerate(names)})

    def scores(self) -> Any:
        """A row for each document of the batch: how badly the null model explains it, and the odds
        that it belongs to the nearest cluster.

        `surprise` is in nats for each word; `novelty` is the share of normal documents that
        surprise less. Both are missing for a document without a known word.
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
        """The texts of the first documents of each candidate, where they are kept."""
        return read_shown_texts(self.folder, self.result)

    @cached_property
    def _tokeniser(self) -> Any:
        return find_tokeniser(self._test)

    def _say(self) -> str:
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
        return "".join(phrase.text for phrase in phrases)

    def __repr__(self) -> str:
        return self._say().replace("\xa0", " ")

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{escape(self._say())}</strong></p>"]
        parts += [self._show_cluster(cluster) for cluster in self.clusters]
        failed = [cluster for cluster in self.candidates if not cluster.significant]
        if failed:
            rows = "".join(f"<li>{escape(repr(cluster)[1:-1])}</li>" for cluster in failed)
            parts.append(
                f"<details><summary>{count(len(failed), 'candidate')} not significant</summary>"
                f"<ul>{rows}</ul></details>"
            )
        if self.copies:
            parts.append(f"<p>{count(len(self.copies), 'group')} of near-copies.</p>")
        return f"<div>{''.join(parts)}</div>"

    def _show_cluster(self, cluster: Cluster) -> str:
        words = ", ".join(map(escape, cluster.words[:SHOWN_WORDS]))
        passages = "".join(
            f"<li><code>{escape(member.id)}</code> {self._show_passage(cluster, member)}</li>"
            for member in cluster.members[:SHOWN_PASSAGES]
        )
        repeats = cluster.repeats
        of = "" if repeats is None else f", found in {repeats.found} of {repeats.of} repeats"
        return (
            f"<h4>{cluster.number}. {words}</h4>"
            f"<p>{count(len(cluster), 'document')}, p = {show_p_value(cluster.p_value)}{of}</p>"
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
    told = cluster.repeats
    return Cluster(
        cluster.index,
        cluster.significant,
        cluster.deciding_p_value if told is None else told.p_value,
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
        None if told is None else Repeats(told.found, told.of, told.p_values, told.shown),
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
    raise InputError(f"a frame needs one of {', '.join(names)}, but none is installed")
