"""Scratch memory for a document: its words, and their probabilities in every topic."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atd_dask.kernels.jit import helper_kernel, inner_kernel, kernel
from atd_dask.kernels.model import Floats, Ints, Topics

# n = distinct words of a document, m = active topics, j = all topics

# How many probabilities of frequent words are kept from one document to the next.
MOST_KEPT = 2**21


class Workspace(NamedTuple):
    """Scratch memory for a document."""

    words: Ints  # n
    counts: Floats  # n
    shared: Floats  # n: probabilities of the words in the shared model
    places: Ints  # n: the rows of the words in `columns`, or -1 if all topics share the word
    kept: Ints  # words: 1 + the row of a word that is kept for the next document, or 0
    n_kept: Ints  # 1
    columns: Floats  # places × j: probabilities of words in every topic
    rows: Floats  # j × n: the same, for topics that are or were on
    p: Floats  # n
    inverse: Floats  # n: 1 / p
    ratios: Floats  # n: of the probabilities in another mixture to p
    active: Topics  # m
    theta: Floats  # m
    g: Floats  # m
    all_g: Floats  # j
    scarce_g: Floats  # j: the part of scarce words in length × all_g
    costs: Floats  # j: of one more topic
    possible: NDArray[np.bool_]  # j: topics that a first bound does not rule out
    marked: Ints  # j: topics that are on, or were tried
    candidates: Topics  # j: topics to try, the most promising first
    surplus: Floats  # j: the most that each of them could gain
    trial_p: Floats  # n
    trial_active: Topics  # m
    trial_theta: Floats  # m
    direction: Floats  # n
    terms: Floats  # n: of a sum
    log_choose: Floats  # j + 1: log C(M, m)


@kernel
def make_workspace(n_topics, longest):
    """Make a workspace for documents one after the other, each with its own columns."""
    return make_shared_workspace(n_topics, longest, longest, np.int64(0))


@helper_kernel
def make_keeping_workspace(n_topics, longest, n_words, n_docs):
    """Make a workspace for many documents; columns of words that occur early, so the frequent ones,
    are kept."""
    n_kept = min(MOST_KEPT // n_topics, n_words) if n_docs > 1 else 0
    return make_shared_workspace(n_topics, longest, n_kept + longest, n_words if n_kept else 0)


@helper_kernel
def make_shared_workspace(n_topics, longest, n_places, n_words):
    """Make a workspace for documents that share their columns."""
    log_choose = np.zeros(n_topics + 1)
    for m in range(1, n_topics + 1):
        log_choose[m] = log_choose[m - 1] + math.log((n_topics - m + 1) / m)
    return Workspace(
        np.zeros(longest, np.int64),
        np.zeros(longest),
        np.zeros(longest),
        np.zeros(longest, np.int64),
        np.zeros(n_words, np.int64),
        np.zeros(1, np.int64),
        np.zeros((n_places, n_topics)),
        np.zeros((n_topics, longest)),
        np.zeros(longest),
        np.zeros(longest),
        np.zeros(longest),
        np.zeros(n_topics, np.int32),
        np.zeros(n_topics),
        np.zeros(n_topics),
        np.zeros(n_topics),
        np.zeros(n_topics),
        np.zeros(n_topics),
        np.zeros(n_topics, np.bool_),
        np.zeros(n_topics, np.int64),
        np.zeros(n_topics, np.int32),
        np.zeros(n_topics),
        np.zeros(longest),
        np.zeros(n_topics, np.int32),
        np.zeros(n_topics),
        np.zeros(longest),
        np.zeros(longest),
        log_choose,
    )


@inner_kernel
def longest_document(indptr):
    longest = 1
    for d in range(len(indptr) - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    return longest


@inner_kernel
def load_document(table, terms, counts, work):
    """Copy the known words of a document; return their number, and its length in them."""
    n = 0
    length = 0.0
    for i in range(len(terms)):
        shared = table.shared[terms[i]]
        if shared > 0.0:
            work.words[n] = terms[i]
            work.counts[n] = counts[i]
            work.shared[n] = shared
            length += counts[i]
            n += 1
    return n, length


@inner_kernel
def fill_column(table, work, word, index):
    """Fill in the probabilities of a word in every topic of the table."""
    for j in range(len(work.rows)):
        work.columns[index, j] = table.shared[word]
    for k in range(table.indptr[word], table.indptr[word + 1]):
        work.columns[index, table.topics[k]] = table.probabilities[k]


@inner_kernel
def fill_columns(table, extra, work, n):
    """Fill in the probabilities of the document's words in every topic; `extra` is the topic after
    the last one of the table, if the workspace has one. Without it, words that no topic has for its
    own are left out: they are many, and add the same to every topic."""
    has_extra = len(work.rows) > table.n_topics
    most_kept = len(work.columns) - len(work.words)
    for i in range(n):
        word = work.words[i]
        place = -1
        if most_kept > 0 and work.kept[word] > 0:
            place = work.kept[word] - 1
        elif has_extra or table.indptr[word] < table.indptr[word + 1]:
            place = most_kept + i
            if work.n_kept[0] < most_kept:
                place = work.n_kept[0]
                work.n_kept[0] += 1
                work.kept[word] = place + 1
            fill_column(table, work, word, place)
        work.places[i] = place
        if has_extra:
            work.columns[place, table.n_topics] = extra[word]


@inner_kernel
def look_up(table, word, topic):
    """Return the probability of a word in a topic."""
    low = table.indptr[word]
    size = table.indptr[word + 1] - low
    if size == 0:
        return table.shared[word]
    # The topics of a word ascend: half of those that are left is ruled out at a time.
    while size > 1:
        half = size // 2
        low = low + half if table.topics[low + half] <= topic else low
        size -= half
    return table.probabilities[low] if table.topics[low] == topic else table.shared[word]


@inner_kernel
def fill_row(work, topic, n):
    """Fill in the row of a topic, from columns that are filled in."""
    for i in range(n):
        index = work.places[i]
        if index < 0:
            work.rows[topic, i] = work.shared[i]
        else:
            work.rows[topic, i] = work.columns[index, topic]


@inner_kernel
def look_up_row(table, work, topic, n):
    """Fill in the row of a topic, straight from the table: for when few topics are needed."""
    for i in range(n):
        work.rows[topic, i] = look_up(table, work.words[i], topic)


@inner_kernel
def fill_rows(table, extra, work, n):
    """Fill in the columns, and the rows of all topics."""
    fill_columns(table, extra, work, n)
    for topic in range(len(work.rows)):
        fill_row(work, topic, n)
