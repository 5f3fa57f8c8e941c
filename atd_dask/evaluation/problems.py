"""Detection problems drawn by a seed: which documents are planted in which batch.

The parts of a corpus are pooled first. One or two of its classes are anomalous in a problem: some
of their documents are in the batch, and the others are left out. Generated problems have documents
with new topics instead. Some batches also contain junk: near-copies of one normal document, or
normal documents in which a single word is repeated hundreds of times. Null splits have batches with
nothing planted.

Rules are chosen on problems of the half `choose`. Those of the half `report` are looked at only
once the rules are fixed. Group sizes, pairs and junk are dealt from shuffled decks, so that both
halves of every corpus get the same number of each.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from atd_dask.errors import InputError
from atd_dask.evaluation.generated import VERSION, Shape
from atd_dask.evaluation.metrics import Labels
from atd_dask.json_records import JsonObject, JsonRecord
from atd_dask.kernels.model import Block, Ints
from atd_dask.kernels.streams import open_stream

HALVES = ("choose", "report")
GENERATED = "generated"
SHARES = (0.2, 0.5, 1.0)  # of a generated document's tokens, those of the new topic
EXTRAS = ("copies", "bursty", "both")
N_COPIES = 5
BURSTY_DOCUMENTS = (1, 3)
BURST = (200, 2000)  # how often the word is added

VALIDATION_SHARE = 0.07
MIN_VALIDATION = 100
MIN_TRAIN = 2  # times the batch
LEAST_BATCH = 3  # times the documents planted

OWN_SIZES = (10, 20, 40)  # of groups planted in a corpus that has no plan
OWN_NULL = 250  # documents of its null batches

Card = TypeVar("Card")


@dataclass(frozen=True, eq=False)
class Pool:
    """All documents of a corpus."""

    documents: Block
    labels: Labels
    n_words: int

    @cached_property
    def digest(self) -> str:
        content = hashlib.sha256(json.dumps([self.n_words, list(self.labels)]).encode())
        for array in self.documents.arrays:
            content.update(np.ascontiguousarray(array).data)
        return content.hexdigest()

    @cached_property
    def classes(self) -> dict[str, NDArray[np.bool_]]:
        """Return which documents carry each label."""
        names = sorted({label for some in self.labels for label in some})
        return {name: np.array([name in some for some in self.labels]) for name in names}


@dataclass(frozen=True)
class Plan:
    """How many problems to draw from a corpus, and of what size."""

    problems: int
    pairs: int  # problems with two groups
    batch: tuple[int, int]
    sizes: tuple[int, ...] = (10, 20, 40, 100)
    extras: int = 0  # problems with junk
    splits: int = 0  # null splits
    nulls: tuple[tuple[int, int], ...] = ()  # batch size and number of batches, by turns
    shape: Shape | None = None  # of generated documents


PLANS = {
    "reuters": Plan(24, 16, (300, 900), extras=8, splits=36, nulls=((250, 4), (650, 2))),
    "newsgroups": Plan(24, 16, (300, 2500), extras=8, splits=26, nulls=((250, 4), (1000, 4))),
    GENERATED: Plan(
        16, 8, (300, 1500), extras=6, splits=26, nulls=((250, 4), (1000, 4)), shape=Shape()
    ),
}
SHORT_PLANS = {
    GENERATED: Plan(
        3,
        1,
        (60, 90),
        sizes=(10, 15),
        extras=1,
        splits=1,
        nulls=((60, 2),),
        shape=Shape(n_train=240, n_words=300, topics=(3, 4), lengths=(40, 50), own_words=25),
    )
}


def make_plan(pool: Pool, name: str) -> Plan:
    """Plan problems with the classes of a labelled corpus.

    Raises
    ------
    InputError
        If no class is large enough to be planted.
    """
    most = max((int(carry.sum()) for carry in pool.classes.values()), default=0)
    sizes = tuple(size for size in OWN_SIZES if size <= most)
    if not sizes:
        raise InputError(
            f"problems need a label that at least {OWN_SIZES[0]} documents carry, the most frequent"
            f" one of {name} has {most}"
        )
    n_docs = len(pool.labels)
    null = min(OWN_NULL, n_docs // (MIN_TRAIN + 4))
    return Plan(
        24, 8, (min(200, n_docs // 6), 2500), sizes, extras=8, splits=12, nulls=((null, 2),)
    )


@dataclass(frozen=True)
class Group(JsonRecord):
    """Documents of one class, or with one new topic, in a batch."""

    label: str
    size: int
    share: float | None = None  # of a generated document's tokens, those of the new topic


@dataclass(frozen=True, eq=False)
class Problem:
    """Which documents are in which part. A null split has no groups.

    Rows refer to the pool, or to the documents generated for this problem.
    """

    name: str
    half: str
    corpus: str
    seed: int
    groups: tuple[Group, ...]
    train: Ints
    validation: Ints
    batches: tuple[Ints, ...]
    originals: Ints  # normal documents to make junk of, which are in no part
    copies: int = 0  # near-copies of the first original
    bursts: tuple[int, ...] = ()  # how often a word is added to each of the others
    shape: Shape | None = None
    source: str = field(default="", kw_only=True)  # the digest of the pool

    @property
    def anomalous(self) -> tuple[str, ...]:
        return tuple(group.label for group in self.groups)

    @property
    def n_planted(self) -> int:
        return sum(group.size for group in self.groups)

    @property
    def extras(self) -> tuple[str, ...]:
        """Return the kinds of junk in the batch."""
        kinds = (("copies", self.copies), ("bursty", len(self.bursts)))
        return tuple(kind for kind, n in kinds if n)

    @cached_property
    def digest(self) -> str:
        """Return a hash of everything that the documents of this problem depend on."""
        content = hashlib.sha256(json.dumps(self._facts(), sort_keys=True).encode())
        for rows in (self.train, self.validation, self.originals, *self.batches):
            content.update(np.ascontiguousarray(rows).data)
        return content.hexdigest()

    def _facts(self) -> JsonObject:
        return {
            "name": self.name,
            "seed": self.seed,
            "groups": [group.to_json() for group in self.groups],
            "parts": [len(self.train), len(self.validation), [len(rows) for rows in self.batches]],
            "copies": self.copies,
            "bursts": self.bursts,
            "shape": None if self.shape is None else [VERSION, asdict(self.shape)],
            "source": self.source,
        }


def list_problems(
    seed: int, pools: Mapping[str, Pool], plans: Mapping[str, Plan] = PLANS
) -> list[Problem]:
    """Draw the problems of every corpus that has a pool, and the generated ones."""
    return [
        problem
        for corpus, plan in plans.items()
        if plan.shape is not None or corpus in pools
        for half in HALVES
        for problem in _draw_half(seed, corpus, half, pools.get(corpus), plan)
    ]


def list_null_splits(
    seed: int, pools: Mapping[str, Pool], plans: Mapping[str, Plan] = PLANS
) -> list[Problem]:
    """Draw the null splits: several disjoint batches each, with nothing planted."""
    splits = []
    for corpus, plan in plans.items():
        if plan.shape is None and corpus not in pools:
            continue
        counts: Counter[str] = Counter()
        for number in range(plan.splits):
            half = HALVES[number >= (plan.splits + 1) // 2]
            counts[half] += 1
            name = f"{corpus}-null-{half}-{counts[half]:02d}"
            # The second half goes on where the first one stopped.
            size, n_batches = plan.nulls[number % len(plan.nulls)]
            splits.append(
                _draw_null(seed, name, half, corpus, pools.get(corpus), plan, size, n_batches)
            )
    return splits


def _draw_half(seed: int, corpus: str, half: str, pool: Pool | None, plan: Plan) -> list[Problem]:
    stream = open_stream(seed, f"problems/{corpus}/{half}")
    place = HALVES.index(half)
    n, pairs, extras = (_part(number, place) for number in (plan.problems, plan.pairs, plan.extras))
    first = _deal(stream, plan.sizes, n)
    second = _deal(stream, plan.sizes, pairs)
    shares = _deal(stream, SHARES, n + pairs)
    doubled = stream.permutation(np.arange(n) < pairs).tolist()
    mixed = _shuffle(stream, [*_deal(stream, EXTRAS, extras), *[""] * (n - extras)])
    used: Counter[str] = Counter()
    problems = []
    for number in range(n):
        name = f"{corpus}-{half}-{number + 1:02d}"
        sizes = [first[number], *([second.pop()] if doubled[number] else [])]
        if pool is None:
            groups = tuple(
                Group(f"new-{index}", size, shares.pop()) for index, size in enumerate(sizes, 1)
            )
        else:
            groups = _draw_classes(stream, pool, sizes, used, name)
            used.update(group.label for group in groups)
        copies = N_COPIES if mixed[number] in ("copies", "both") else 0
        bursts: tuple[int, ...] = ()
        if mixed[number] in ("bursty", "both"):
            n_bursts = int(stream.integers(*BURSTY_DOCUMENTS, endpoint=True))
            bursts = tuple(stream.integers(*BURST, n_bursts, endpoint=True).tolist())
        n_originals = bool(copies) + len(bursts)
        blank = Problem(name, half, corpus, seed, groups, *_no_rows(), copies, bursts)
        problems.append(_divide(stream, blank, pool, plan, n_originals))
    return problems


def _no_rows() -> tuple[Ints, Ints, tuple[Ints, ...], Ints]:
    none = np.zeros(0, np.int64)
    return none, none, (), none


def _part(number: int, place: int) -> int:
    """Return the part of a number that falls to one of the halves."""
    return (number + 1 - place) // 2


def _deal(stream: np.random.Generator, cards: Sequence[Card], n: int) -> list[Card]:
    """Deal `n` cards; the numbers of any two kinds differ by at most one."""
    dealt: list[Card] = []
    while len(dealt) < n:
        dealt += _shuffle(stream, cards)
    return _shuffle(stream, dealt[:n])


def _shuffle(stream: np.random.Generator, cards: Sequence[Card]) -> list[Card]:
    return [cards[index] for index in stream.permutation(len(cards)).tolist()]


def _draw_classes(
    stream: np.random.Generator, pool: Pool, sizes: Sequence[int], used: Counter[str], name: str
) -> tuple[Group, ...]:
    """Draw classes that this half has used least, among those with enough documents of their own.

    A second one is left out if no class is left for it.
    """
    groups: list[Group] = []
    for size in sizes:
        able = [
            label
            for label in pool.classes
            if label not in [group.label for group in groups]
            and _have_enough(pool, [*groups, Group(label, size)])
        ]
        if not able and groups:
            break
        if not able:
            raise InputError(
                f"a problem needs a class with at least {size} documents beside others,"
                f" the corpus of {name} has none"
            )
        least = min(used[label] for label in able)
        able = [label for label in able if used[label] == least]
        groups.append(Group(able[int(stream.integers(len(able)))], size))
    return tuple(groups)


def _have_enough(pool: Pool, groups: Sequence[Group]) -> bool:
    """Return whether the classes have enough documents, and leave enough others."""
    planted = sum(group.size for group in groups)
    n_normal = len(_normal_rows(pool, [group.label for group in groups]))
    n_originals = 1 + BURSTY_DOCUMENTS[1]
    if _limit_batch(n_normal, _count_validation(n_normal), n_originals, planted) < 2 * planted:
        return False
    return all(np.count_nonzero(_own(pool, groups, g.label)) >= g.size for g in groups)


def _limit_batch(n_normal: int, n_validation: int, n_originals: int, planted: int) -> int:
    """Return how many documents a batch may have, so that enough are left for training."""
    return (n_normal - n_validation - n_originals + planted) // (1 + MIN_TRAIN)


def _own(pool: Pool, groups: Sequence[Group], label: str) -> NDArray[np.bool_]:
    """Return which documents carry this anomalous class and no other one."""
    mine = pool.classes[label].copy()
    for group in groups:
        if group.label != label:
            mine &= ~pool.classes[group.label]
    return mine


def _divide(
    stream: np.random.Generator, problem: Problem, pool: Pool | None, plan: Plan, n_originals: int
) -> Problem:
    """Return the problem with rows for its parts."""
    planted = problem.n_planted
    if pool is None:
        assert plan.shape is not None
        n_validation = _count_validation(plan.shape.n_train)
        most = plan.shape.n_train // MIN_TRAIN
    else:
        normal = _normal_rows(pool, problem.anomalous)
        n_validation = _count_validation(len(normal))
        most = _limit_batch(len(normal), n_validation, n_originals, planted)
    largest = min(plan.batch[1], most)
    smallest = min(max(plan.batch[0], LEAST_BATCH * planted), largest)
    n_batch = int(stream.integers(smallest, largest, endpoint=True))
    n_normal = n_batch - planted
    if n_normal < planted:
        raise InputError(
            f"a batch must have at least as many normal documents as planted ones, that of"
            f" {problem.name} has {n_normal} and {planted}"
        )
    if pool is None:
        assert plan.shape is not None
        total = plan.shape.n_train + n_validation + n_normal + n_originals
        normal = np.arange(total)
        unusual = np.arange(total, total + planted)
    else:
        normal = stream.permutation(normal)
        unusual = np.concatenate(
            [
                stream.permutation(np.flatnonzero(_own(pool, problem.groups, group.label)))[
                    : group.size
                ]
                for group in problem.groups
            ]
        )
    ends = np.cumsum((n_originals, n_normal, n_validation))
    originals, ordinary, validation, train = np.split(normal, ends)
    return replace(
        problem,
        train=np.sort(train),
        validation=np.sort(validation),
        batches=(stream.permutation(np.concatenate((ordinary, unusual))),),
        originals=originals,
        shape=plan.shape,
        source="" if pool is None else pool.digest,
    )


def _draw_null(
    seed: int,
    name: str,
    half: str,
    corpus: str,
    pool: Pool | None,
    plan: Plan,
    size: int,
    n_batches: int,
) -> Problem:
    stream = open_stream(seed, f"problems/{name}")
    n_test = size * n_batches
    if pool is None:
        assert plan.shape is not None
        n_validation = _count_validation(plan.shape.n_train)
        n_docs = plan.shape.n_train + n_validation + n_test
    else:
        n_docs = len(pool.labels)
        n_validation = _count_validation(n_docs)
    if n_docs - n_test - n_validation < MIN_TRAIN * size:
        raise InputError(
            f"training must have at least {MIN_TRAIN * size} documents for batches of {size},"
            f" {name} leaves {max(0, n_docs - n_test - n_validation)} of {n_docs}"
        )
    order = stream.permutation(n_docs)
    test, validation, train = np.split(order, (n_test, n_test + n_validation))
    return Problem(
        *(name, half, corpus, seed, ()),
        train=np.sort(train),
        validation=np.sort(validation),
        batches=tuple(np.split(test, n_batches)),
        originals=np.zeros(0, np.int64),
        shape=plan.shape,
        source="" if pool is None else pool.digest,
    )


def _normal_rows(pool: Pool, anomalous: Sequence[str]) -> Ints:
    unusual = np.zeros(len(pool.labels), np.bool_)
    for label in anomalous:
        unusual |= pool.classes[label]
    return np.flatnonzero(~unusual)


def _count_validation(n_docs: int) -> int:
    return max(MIN_VALIDATION, int(VALIDATION_SHARE * n_docs))
