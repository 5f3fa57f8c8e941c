"""Counted documents between reading and storing.

The documents stay in pieces, on the workers that counted them or in a scratch file of this process.
Only what is needed to plan comes here: words and in how many documents they are, a hash of each id.
Dask counts a piece again if the worker that had it is gone, and the piece is the same.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from atd_dask.distribution.engine.runner import Runner
from atd_dask.documents import CountBatch, Skipped
from atd_dask.kernels.copies import (
    Hashes,
    Signatures,
    hash_contents,
    make_word_keys,
    sign_documents,
)
from atd_dask.kernels.model import Block
from atd_dask.text.counting import WordCounts
from atd_dask.text.lexicon import Encoding, Lexicon, WordCodes
from atd_dask.text.readers.contents import Content

REPEATED = "its id occurs earlier in the corpus"

# How many pieces are asked at once for little.
AT_ONCE = 128

# Pieces whose signatures are computed ahead together.
SIGNED_AT_ONCE = 8

# Nobody waits for signatures until documents are being written, and then somebody does.
SIGNING_PRIORITY = -1
WRITING_PRIORITY = -2

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PieceSummary:
    """What is known of a piece without its documents."""

    words: Sequence[str]
    frequencies: Numbers  # words: how many documents have it
    ids: Hashes  # documents: a hash of the id
    contents: Hashes  # documents: the same for the same words and counts
    skipped: Sequence[Skipped]
    has_texts: bool
    has_dates: bool
    seen: tuple[str, Content] | None = None  # a file that was read, and what it contains


def summarise(counts: WordCounts) -> PieceSummary:
    batch = counts.batch
    return PieceSummary(
        counts.words,
        np.bincount(batch.terms, minlength=len(counts.words)).astype(np.int32),
        make_word_keys(batch.ids),
        hash_contents(_as_block(batch), counts.find_keys()),
        counts.skipped,
        batch.texts is not None,
        batch.dates is not None,
        seen=counts.seen,
    )


def strip(counts: WordCounts) -> WordCounts:
    """Return what stays of a piece where it is."""
    return WordCounts((), counts.batch.pack(), (), counts.find_keys())


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of a spool: where its documents are, and which of them belong to the spool."""

    handle: Any  # a result on a worker, or a place in a scratch file
    numbers: Numbers  # words of the piece → lexicon
    frequencies: Numbers  # words of the piece: how many documents of the spool have it
    ids: Hashes  # documents of the piece
    contents: Hashes
    keep: Mask | None = None  # documents of the piece; all if None
    signed: Any = None  # where the signatures of all its documents are, if they are computed ahead

    @property
    def n_docs(self) -> int:
        return len(self.ids) if self.keep is None else int(np.count_nonzero(self.keep))


class CountSpool:
    """Counted documents, in order; those whose id occurred before are skipped.

    With a runner, pieces stay on its workers (`note`). Without one they go to a scratch file
    (`add`), so that memory does not grow with the documents. The spool must be closed.

    With `signs_ahead`, workers that have nothing else to do compute signatures before anybody asks
    for them.
    """

    def __init__(
        self, lexicon: Lexicon, runner: Runner | None = None, *, signs_ahead: bool = False
    ) -> None:
        self.lexicon = lexicon
        self.runner = runner or Runner()
        self._signs_ahead = signs_ahead and self.runner.client is not None
        self.has_texts = False
        self.has_dates = False
        self._skipped: dict[str, int] = {}
        self._examples: dict[str, str] = {}
        self._scratch = _Scratch()
        self._noted: list[_Piece] = []
        self._pieces: list[_Piece] | None = None  # once repeated ids are dropped

    def add(self, counts: WordCounts) -> None:
        """Append documents that are here."""
        self.note(self._scratch.put(strip(counts)), summarise(counts))

    def note(self, handle: Any, summary: PieceSummary) -> None:
        """Append documents that are elsewhere."""
        self._noted.append(
            _Piece(
                handle,
                self.lexicon.number(summary.words),
                summary.frequencies,
                summary.ids,
                summary.contents,
            )
        )
        self._pieces = None
        if self._signs_ahead and len(self._noted) % SIGNED_AT_ONCE == 0:
            self._noted[-SIGNED_AT_ONCE:] = self._sign(self._noted[-SIGNED_AT_ONCE:])
        for skip in summary.skipped:
            self._skip(skip)
        self.has_texts |= summary.has_texts
        self.has_dates |= summary.has_dates

    def _skip(self, skip: Skipped) -> None:
        self._skipped[skip.reason] = self._skipped.get(skip.reason, 0) + skip.times
        self._examples.setdefault(skip.reason, skip.location)

    def _settle(self) -> list[_Piece]:
        """Return the pieces without documents whose id occurred before."""
        if self._pieces is None:
            self._skipped.pop(REPEATED, None)
            self._pieces = self._drop_repeated()
        return self._pieces

    @property
    def n_docs(self) -> int:
        return sum(piece.n_docs for piece in self._settle())

    @property
    def skipped(self) -> dict[str, int]:
        """How many documents were skipped for each reason."""
        self._settle()
        return self._skipped

    @property
    def examples(self) -> dict[str, str]:
        """The first location for each reason."""
        self._settle()
        return self._examples

    def _drop_repeated(self) -> list[_Piece]:
        """Ids are compared only where their hashes are equal, which is rare."""
        hashes, times = np.unique(_join([piece.ids for piece in self._noted]), return_counts=True)
        doubtful = hashes[times > 1]
        if not len(doubtful):
            return self._noted
        masks = [np.isin(piece.ids, doubtful) for piece in self._noted]
        suspects = [index for index, mask in enumerate(masks) if mask.any()]
        questions = (([self._noted[index].handle], masks[index]) for index in suspects)
        seen: set[str] = set()
        for index, ids in zip(suspects, self._ask(_take_ids, questions), strict=True):
            repeated = np.zeros(len(ids), np.bool_)
            for row, id in enumerate(ids):
                if id in seen:
                    repeated[row] = True
                    self._skip(Skipped(REPEATED, f"document {id!r}"))
                seen.add(id)
            masks[index][masks[index]] = repeated
        keep = [~mask if mask.any() else None for mask in masks]
        return self._choose([keep])[0]

    def _choose(self, choices: Sequence[Sequence[Mask | None]]) -> list[list[_Piece]]:
        """Return the pieces with the documents of each choice, counted anew where some are
        missing."""
        pieces = self._noted if self._pieces is None else self._pieces
        columns = list(zip(*choices, strict=True))
        asked = [index for index, masks in enumerate(columns) if any(m is not None for m in masks)]
        questions = (
            ([pieces[index].handle], (columns[index], len(pieces[index].numbers)))
            for index in asked
        )
        counted = dict(zip(asked, self._ask(_count_documents, questions), strict=True))
        return [
            [
                replace(piece, keep=choice[index], frequencies=counted[index][n])
                if index in counted
                else piece
                for index, piece in enumerate(pieces)
            ]
            for n, choice in enumerate(choices)
        ]

    def _ask(
        self,
        step: Callable[..., Any],
        questions: Iterable[tuple[Sequence[Any], Any]],
        at_least: int = AT_ONCE,
    ) -> Iterator[Any]:
        return self.runner.combine(step, None, questions, at_least)

    def frequencies(self) -> NDArray[np.int64]:
        """Return the document frequency of each word of the lexicon."""
        frequencies = np.zeros(len(self.lexicon), dtype=np.int64)
        for piece in self._settle():
            frequencies[piece.numbers] += piece.frequencies
        return frequencies

    def contents(self) -> Hashes:
        """Return a hash of each document, the same for the same words and counts."""
        return _join([_kept(piece.contents, piece.keep) for piece in self._settle()])

    def sign(self) -> list[tuple[Any, Mask | None]]:
        """Return the handles of the signatures of each piece, by which near-duplicates are found,
        and which of its documents belong to the spool."""
        return [(piece.signed, piece.keep) for piece in self._sign(self._settle())]

    def _sign(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Return the pieces with signatures."""
        rows = [(_sign, piece.handle) for piece in pieces if piece.signed is None]
        signed = iter(self.runner.derive_all(rows, priority=SIGNING_PRIORITY))
        return [
            replace(piece, signed=next(signed)) if piece.signed is None else piece
            for piece in pieces
        ]

    def take(self, rows: NDArray[np.int64]) -> Block:
        """Return documents of ascending rows; their terms are numbers of the lexicon."""
        ends = np.cumsum([0, *(piece.n_docs for piece in self._settle())])
        parts = np.split(rows, np.searchsorted(rows, ends[1:-1]))
        chosen = []
        for piece, some, start in zip(self._settle(), parts, ends[:-1], strict=False):
            if len(some):
                mask = np.zeros(len(piece.ids), np.bool_)
                kept = np.arange(len(mask)) if piece.keep is None else np.flatnonzero(piece.keep)
                mask[kept[some - start]] = True
                chosen.append((piece, mask))
        questions = (([piece.handle], mask) for piece, mask in chosen)
        nothing = np.zeros(0, np.int32)
        blocks = [Block(np.zeros(1, np.int64), nothing, nothing)]
        for (piece, _), batch in zip(chosen, self._ask(_take, questions), strict=True):
            blocks.append(_as_block(batch.rename(piece.numbers)))
        return Block.concatenate(blocks)

    def batches(self) -> Iterator[CountBatch]:
        """Yield all documents in order; their terms are numbers of the lexicon."""
        questions = (([piece.handle], piece.keep) for piece in self._settle())
        batches = self._ask(_take, questions, at_least=0)
        for piece, batch in zip(self._settle(), batches, strict=True):
            yield batch.rename(piece.numbers)

    def names(self) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return the ids and labels of all documents."""
        ids: list[str] = []
        labels: list[tuple[str, ...]] = []
        questions = (([piece.handle], piece.keep) for piece in self._settle())
        for some_ids, some_labels in self._ask(_take_names, questions):
            ids += some_ids
            labels += some_labels
        return ids, labels

    def texts(self) -> Iterator[Sequence[bytes]]:
        """Yield the texts of the documents, piece by piece."""
        questions = (([piece.handle], piece.keep) for piece in self._settle())
        return self._ask(_take_texts, questions, at_least=0)

    def sizes(self, encoding: Encoding) -> list[tuple[int, int, int]]:
        """Return the size of each piece: its documents, their entries of words in the vocabulary,
        and of words outside it."""
        known = encoding.codes.to_vocabulary >= 0
        return [
            (piece.n_docs, n_known, int(piece.frequencies.sum()) - n_known)
            for piece in self._settle()
            for n_known in [int(piece.frequencies[known[piece.numbers]].sum())]
        ]

    def encode(
        self,
        encoding: Encoding,
        finishes: Iterable[Callable[[CountBatch, CountBatch], Any]],
    ) -> Iterator[Any]:
        """Yield, for each piece, the handle of `finish(known, unseen)`: the counts of words in the
        vocabulary, and of those outside it. It is computed where the piece is, and stays there."""
        rows = (
            (piece.handle, (piece.keep, encoding.codes.take(piece.numbers), finish))
            for piece, finish in zip(self._settle(), finishes, strict=True)
        )
        # Those in a scratch file are encoded here, one at a time.
        at_once = 1 if self.runner.client is None else AT_ONCE
        while some := list(islice(rows, at_once)):
            rows_now = [(_encode, *row) for row in some]
            yield from self.runner.derive_all(rows_now, priority=WRITING_PRIORITY)

    def divide(self, choices: Sequence[Mask]) -> list[CountSpool]:
        """Split the documents into a spool for each choice; the first one lists what was skipped.
        They share the pieces of this one, and are closed with it."""
        ends = np.cumsum([piece.n_docs for piece in self._settle()])[:-1]
        masks = []
        for choice in choices:
            mine: list[Mask | None] = []
            for piece, chosen in zip(self._settle(), np.split(choice, ends), strict=False):
                keep = np.ones(len(piece.ids), np.bool_) if piece.keep is None else piece.keep
                keep = keep.copy()
                keep[keep] = chosen
                mine.append(keep)
            masks.append(mine)
        parts = [CountSpool(self.lexicon, self.runner) for _ in choices]
        for part, pieces in zip(parts, self._choose(masks), strict=True):
            part._noted = part._pieces = pieces
            part.has_texts, part.has_dates = self.has_texts, self.has_dates
        parts[0]._skipped, parts[0]._examples = self._skipped, self._examples
        return parts

    def close(self) -> None:
        self._scratch.close()
        self._noted, self._pieces = [], []


class _Scratch:
    """A scratch file of pieces, which is made when it is needed."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def put(self, piece: WordCounts) -> _Scratched:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="atd-dask-")  # noqa: SIM115
        self._file.seek(0, 2)
        place = self._file.tell()
        pickle.dump(piece, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        return _Scratched(self._file, place)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True, slots=True)
class _Scratched:
    """A piece in a scratch file."""

    file: IO[bytes]
    place: int

    def load(self) -> WordCounts:
        self.file.seek(self.place)
        piece: WordCounts = pickle.load(self.file)  # noqa: S301
        return piece


def _load(piece: WordCounts | _Scratched) -> WordCounts:
    return piece.load() if isinstance(piece, _Scratched) else piece


def _take(pieces: Sequence[WordCounts | _Scratched], _: None, keep: Mask | None) -> CountBatch:
    batch = _load(pieces[0]).batch
    return batch if keep is None else batch.take_documents(keep)


def _take_ids(pieces: Sequence[WordCounts | _Scratched], _: None, keep: Mask) -> list[str]:
    return list(compress(_load(pieces[0]).batch.ids, keep))


def _take_names(
    pieces: Sequence[WordCounts | _Scratched], _: None, keep: Mask | None
) -> tuple[list[str], list[tuple[str, ...]]]:
    batch = _load(pieces[0]).batch
    chosen = np.ones(len(batch), np.bool_) if keep is None else keep
    return list(compress(batch.ids, chosen)), list(compress(batch.labels, chosen))


def _take_texts(
    pieces: Sequence[WordCounts | _Scratched], _: None, keep: Mask | None
) -> Sequence[bytes]:
    batch = _load(pieces[0]).batch
    texts = batch.texts or ()
    return texts if keep is None else list(compress(texts, keep))


def _count_documents(
    pieces: Sequence[WordCounts | _Scratched], _: None, question: tuple[Sequence[Mask | None], int]
) -> list[Numbers]:
    batch = _load(pieces[0]).batch
    masks, n_words = question
    found = []
    for mask in masks:
        terms = batch.terms
        if mask is not None:
            terms = terms[np.repeat(mask, np.diff(batch.indptr))]
        found.append(np.bincount(terms, minlength=n_words).astype(np.int32))
    return found


def _sign(piece: WordCounts | _Scratched) -> Signatures:
    piece = _load(piece)
    return sign_documents(_as_block(piece.batch), np.array(piece.find_keys()))


def _encode(
    piece: WordCounts | _Scratched,
    question: tuple[Mask | None, WordCodes, Callable[[CountBatch, CountBatch], Any]],
) -> Any:
    keep, codes, finish = question
    return finish(*codes.encode(_take([piece], None, keep)))


def _as_block(batch: CountBatch) -> Block:
    """Copy documents for kernels, which would be compiled once more for arrays that came over the
    wire and stand at odd addresses."""
    return Block(
        np.array(batch.indptr), batch.terms.astype(np.int32), batch.counts.astype(np.int32)
    )


def _kept(values: Hashes, keep: Mask | None) -> Hashes:
    return values if keep is None else values[keep]


def _join(parts: Sequence[Hashes]) -> Hashes:
    return np.concatenate([np.zeros(0, np.uint64), *parts])
