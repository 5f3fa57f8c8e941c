"""The equations of the paper as slow, obvious loops: what every fast path is compared with.

counts is a matrix documents × words, theta documents × topics (0 where the switch v is off), beta
topics × words with the shared probability filled in where the switch u is off.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def log_choose(n, k):
    return math.log(math.comb(n, k))


def entropy(share):
    """Shannon's entropy of a switch in bits."""
    if share in (0.0, 1.0):
        return 0.0
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


def document_log_likelihood(document, theta, beta):
    total = 0.0
    for word, count in enumerate(document):
        if count > 0:
            p = 0.0
            for topic, share in enumerate(theta):
                p += share * beta[topic][word]
            total += count * math.log(p)
    return total


def gradients(counts, mixture, beta):
    """The derivatives of a document's log-likelihood by the shares of topics, per token."""
    return [
        sum(count * b / p for count, b, p in zip(counts, topic, mixture, strict=True)) / sum(counts)
        for topic in beta
    ]


def document_cost(document, n_active, n_topics):
    """The terms of equation testbic that a document adds."""
    length = sum(document)
    return 0.5 * (n_active - 1) * math.log(length / (2 * math.pi)) + log_choose(n_topics, n_active)


def cost(counts, theta, u):
    """Equation biccost."""
    n_docs, n_topics = theta.shape
    n_words = u.shape[1]
    total = n_docs * math.log(n_topics)
    for d in range(n_docs):
        total += document_cost(counts[d], int((theta[d] > 0).sum()), n_topics)
    places = n_topics * n_words
    mean_specific = u.sum() / n_topics
    total += places * entropy(mean_specific / n_words) * math.log(2)
    total -= 0.5 * math.log(places)
    for j in range(n_topics):
        tokens = sum(counts[d].sum() for d in range(n_docs) if theta[d][j] > 0)
        total += 0.5 * u[j].sum() * math.log(tokens / (2 * math.pi))
    return total


def bic(counts, theta, beta, u):
    """Equation bic."""
    likelihood = sum(
        document_log_likelihood(document, theta[d], beta) for d, document in enumerate(counts)
    )
    return cost(counts, theta, u) - likelihood


def expected_counts(counts, theta, beta):
    """x of the paper: topics × words."""
    n_topics, n_words = beta.shape
    x = np.zeros((n_topics, n_words))
    for d, document in enumerate(counts):
        for n in range(n_words):
            if document[n] == 0:
                continue
            joint = [theta[d][j] * beta[j][n] for j in range(n_topics)]
            for j in range(n_topics):
                x[j][n] += document[n] * joint[j] / sum(joint)
    return x


def word_probabilities(x, u, shared, least=1e-15):
    """β with the shared probabilities filled in, for given expected counts and switches."""
    n_topics, n_words = x.shape
    beta = np.tile(np.asarray(shared, float), (n_topics, 1))
    for j in range(n_topics):
        on = [n for n in range(n_words) if u[j][n]]
        mass = sum(max(x[j][n], least) for n in on)
        mu = mass / (1 - sum(shared[n] for n in range(n_words) if not u[j][n]))
        for n in on:
            beta[j][n] = max(x[j][n], least) / mu
    return beta


def smoothed_topic(x, shared, smoothing):
    """A topic that has each word x times, with some tokens of the shared model: for each of the
    words that it has in effect, its perplexity, `smoothing` tokens."""
    perplexity = math.prod(usual**-usual for usual in shared if usual > 0)
    more = smoothing * perplexity
    return [(n + more * usual) / (sum(x) + more) for n, usual in zip(x, shared, strict=True)]


def new_mass(counts):
    """The share of tokens whose word no other document has; of one token, if there are none."""
    alone = 0
    for d, document in enumerate(counts):
        others = [other for e, other in enumerate(counts) if e != d]
        alone += sum(n for word, n in enumerate(document) if not any(o[word] for o in others))
    return max(alone, 1) / max(counts.sum(), 1)


def encoding(n_on, places):
    """The cost in nats of encoding which of the switches u are on."""
    return places * entropy(n_on / places) * math.log(2)


def encoding_of_one_more(n_on, places):
    """What encoding costs for one more word, or for the last one if all are on."""
    n_on = min(n_on, places - 1)
    return encoding(n_on + 1, places) - encoding(n_on, places)


def expected_bic(x, u, shared, tokens, price=None):
    """The terms of the expected complete-data BIC that depend on the words of the topics. With a
    price, encoding costs that for each word that is on."""
    n_topics, n_words = x.shape
    beta = word_probabilities(x, u, shared, least=0.0)
    total = encoding(u.sum(), u.size) if price is None else price * u.sum()
    for j in range(n_topics):
        total += 0.5 * u[j].sum() * math.log(tokens[j] / (2 * math.pi))
        for n in range(n_words):
            if x[j][n] > 0:
                total -= x[j][n] * math.log(beta[j][n])
    return total


def best_proportions(document, beta, active, steps=3000):
    """Proportions over the active topics by many EM steps."""
    theta = np.zeros(len(beta))
    theta[list(active)] = 1 / len(active)
    for _ in range(steps):
        new = np.zeros(len(beta))
        for n, count in enumerate(document):
            if count == 0:
                continue
            p = sum(theta[j] * beta[j][n] for j in active)
            for j in active:
                new[j] += count * theta[j] * beta[j][n] / p
        theta = new / new.sum()
    return theta


def document_objective(document, theta, beta, n_active=None):
    """Equation testbic for one document."""
    active = int((theta > 0).sum()) if n_active is None else n_active
    return document_cost(document, active, len(beta)) - document_log_likelihood(
        document, theta, beta
    )


def objectives_of_supports(document, beta, steps=3000):
    """Equation testbic for every set of active topics."""
    n_topics = len(beta)
    return {
        active: document_objective(
            document, best_proportions(document, beta, active, steps), beta, len(active)
        )
        for size in range(1, n_topics + 1)
        for active in itertools.combinations(range(n_topics), size)
    }


def bic_of_blocks(block, proportions, table):
    """Equation bic for a whole corpus as the kernels hold it, from nothing but the equation.

    A topic counts as active where it is listed, be its proportion 0; a document without words
    counts for nothing.
    """
    n_topics, n_words = table.n_topics, table.n_words
    beta = table.dense()
    sizes = np.diff(block.indptr)
    document = np.repeat(np.arange(len(sizes)), sizes)
    lengths = np.bincount(document, block.counts, minlength=len(sizes))
    n_active = np.diff(proportions.indptr)
    p = np.zeros(len(block.terms))
    for place in range(n_active.max()):
        has = (place < n_active)[document]
        entry = proportions.indptr[document[has]] + place
        p[has] += proportions.theta[entry] * beta[proportions.topics[entry], block.terms[has]]
    total = -(block.counts @ np.log(p))
    known = lengths > 0
    choices = np.array([log_choose(n_topics, m) for m in range(n_topics + 1)])
    total += known.sum() * math.log(n_topics) + choices[n_active[known]].sum()
    total += 0.5 * (n_active[known] - 1) @ np.log(lengths[known] / (2 * math.pi))
    specific = np.bincount(table.topics, minlength=n_topics)
    places = n_topics * n_words
    total += places * entropy(specific.sum() / places) * math.log(2) - 0.5 * math.log(places)
    lengths_of_active = np.repeat(lengths, n_active)
    tokens = np.bincount(proportions.topics, lengths_of_active, minlength=n_topics)
    return total + 0.5 * specific @ np.log(tokens / (2 * math.pi))


def cosine(a, b):
    product = sum(x * y for x, y in zip(a, b, strict=True))
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return product / norms if norms > 0 else -1.0


def bootstrap_document(donor, length, draws):
    """Algorithm 2: words drawn with replacement from the tokens of a donor (counts by word).

    `draws` gives whole numbers below 2³² in the order in which they are to be used.
    """
    tokens = [word for word, count in enumerate(donor) for _ in range(count)]
    document = [0] * len(donor)
    for _ in range(length):
        document[tokens[next(draws) * len(tokens) >> 32]] += 1
    return document


def hard_share(document, theta, beta, new):
    """The share of a document's tokens that are likeliest from the new topic."""
    mine = 0
    for n, count in enumerate(document):
        others = [theta[j] * beta[j][n] for j in range(len(beta)) if j != new and theta[j] > 0]
        if all(theta[new] * beta[new][n] > other for other in others):
            mine += count
    return mine / sum(document)


def near_copies(one, other):
    """Whether two documents (word to count) say the same in nearly the same words."""
    if min(len(one), len(other)) < 5:
        return False
    tokens = [
        {(word, i) for word, count in document.items() for i in range(min(count, 8))}
        for document in (one, other)
    ]
    words = [set(one), set(other)]
    if min(len(one), len(other)) < 20:
        return tokens[0] == tokens[1]
    return all(4 * len(a & b) >= 3 * len(a | b) for a, b in (tokens, words))


def part_copies(documents, parts):
    """For each document the first representative of its part that it is a near-copy of, -1 for
    none; and which of the last part are near-copies of a representative of another part."""
    copy_of = []
    like = []
    for d, document in enumerate(documents):
        near = [r for r in range(d) if copy_of[r] == -1 and near_copies(document, documents[r])]
        like.append(parts[d] == parts[-1] and any(parts[r] != parts[d] for r in near))
        copy_of.append(min((r for r in near if parts[r] == parts[d]), default=-1))
    return copy_of, like


def _mix(value):
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def sign_document(document, keys, multipliers, n_bands):
    """The signatures of a document (term to count): of the whole, and of each band; and a sketch,
    the last bit of each hash."""
    if len(document) < 5:
        return 0, [0] * n_bands, [0, 0]
    tokens = [
        _mix((keys[term] + (i + 1) * 0x9E3779B97F4A7C15) % 2**64)
        for term, count in document.items()
        for i in range(min(count, 8))
    ]
    whole = max(_mix(sum(tokens) % 2**64), 1)
    if len(document) < 20:
        return whole, [0] * n_bands, [0, 0]
    least = [
        min((factor * (token >> 32) + summand) % 2**32 for token in tokens)
        for factor, summand in zip(*multipliers, strict=True)
    ]
    size = len(least) // n_bands
    bands = []
    for band in range(n_bands):
        joined = band + 1
        for value in least[band * size : (band + 1) * size]:
            joined = _mix(joined ^ ((value + 0x9E3779B97F4A7C15) % 2**64))
        bands.append(max(joined >> 32, 1))
    bits = [value % 2 for value in least]
    sketch = [sum(bit << n for n, bit in enumerate(bits[k : k + 64])) for k in (0, 64)]
    return whole, bands, sketch


def hash_contents(document, keys):
    """A hash of a document's words and counts, whatever their order."""
    hashes = [_mix((keys[t] + 0x9E3779B97F4A7C15) % 2**64) * n for t, n in document.items()]
    return sum(hashes) % 2**64


def find_meetings(values):
    """Whether each document has a value, of the same signature, in common with another one."""
    return [
        any(
            a == b != 0
            for other, theirs in enumerate(values)
            if other != d
            for a, b in zip(mine, theirs, strict=True)
        )
        for d, mine in enumerate(values)
    ]


def shortlist(signatures, least):
    """The documents that share a signature with another and agree with it in enough bits."""
    listed = set()
    for i, (whole, bands, sketch) in enumerate(signatures):
        for j, (other_whole, other_bands, other_sketch) in enumerate(signatures[:i]):
            n_unequal = sum((a ^ b).bit_count() for a, b in zip(sketch, other_sketch, strict=True))
            shared = any(a == b != 0 for a, b in zip(bands, other_bands, strict=True))
            if whole == other_whole != 0 or (shared and 120 - n_unequal >= least):
                listed |= {i, j}
    return sorted(listed)


def cross_fitted(n_docs, n_folds, gain):
    """What each document gains by a topic that the documents of the other folds taught; `gain` is
    of those who teach and the one who is asked."""
    n_folds = min(n_folds, n_docs)
    gains = []
    for document in range(n_docs):
        teaching = [other for other in range(n_docs) if other % n_folds != document % n_folds]
        gains.append(gain(teaching, document) if teaching else 0.0)
    return gains


def tf_idf(counts, batch, normal):
    """Vectors of length 1 with (1 + log count) · idf; a word that one document has counts 0."""
    n_docs = len(batch) + len(normal)
    vectors = []
    for document in counts:
        vector = []
        for word, count in enumerate(document):
            n_with = sum(other[word] > 0 for other in (*batch, *normal))
            idf = math.log((n_docs + 1) / (n_with + 1)) if n_with >= 2 else 0.0
            vector.append((1 + math.log(count)) * idf if count else 0.0)
        length = math.sqrt(sum(value * value for value in vector))
        vectors.append([value / length if length else 0.0 for value in vector])
    return vectors


def contrast_score(vector, group, normal):
    """The product of a vector with the mean of a group, each word weighed by the log of how many
    times more of the group's vectors have it than normal ones."""
    score = 0.0
    for word, value in enumerate(vector):
        n_with = sum(other[word] > 0 for other in group)
        usual = (sum(other[word] > 0 for other in normal) + 0.5) / (len(normal) + 1)
        if n_with and n_with / len(group) > usual:
            mean = sum(other[word] for other in group) / len(group)
            score += value * mean * math.log(n_with / len(group) / usual)
    return score


def contrast_scores(batch, normal, group):
    """The scores of all documents of a batch, and of normal ones, for a group of the batch's rows;
    no document has a part in the direction that it is scored by."""

    def without(vectors, gone):
        return [vector for index, vector in enumerate(vectors) if index != gone]

    inside = [batch[row] for row in group]
    scores = []
    for row, vector in enumerate(batch):
        others = without(inside, group.index(row)) if row in group else inside
        scores.append(contrast_score(vector, others, normal))
    usual = []
    for index, vector in enumerate(normal):
        # A normal document is left out of the words that it has, and of none that it has not.
        usual.append(contrast_score(vector, inside, without(normal, index)))
    return scores, usual


def best_cut(scores, usual, least_ratio, least, most):
    """How many of the highest scores are most in excess, and by how much."""
    best = (0, 0.0)
    ranked = sorted((score for score in scores if score > 0), reverse=True)
    for size, score in enumerate(ranked[:most], 1):
        if size < len(ranked) and ranked[size] == score:
            continue
        n_usual = sum(other >= score for other in usual)
        enough = size / len(scores) >= least_ratio * (n_usual + 0.5) / len(usual)
        found = excess(size, len(scores), n_usual, len(usual))
        if size >= least and enough and found > best[1]:
            best = (size, found)
    return best


def excess(n_found, n_batch, n_usual, n_normal):
    """Twice the logarithm of how much likelier it is that of all documents of a kind as many are in
    the batch as there are, than that each of them is there by chance; half a normal document is
    added."""
    if n_found <= 0:
        return 0.0
    n_usual = n_usual + 0.5
    by_chance = n_batch / (n_batch + n_normal)
    share = n_found / (n_found + n_usual)
    if share <= by_chance:
        return 0.0
    outside = n_usual * math.log((1 - share) / (1 - by_chance))
    return 2 * (n_found * math.log(share / by_chance) + outside)


def chance_of_maximum(value, maxima):
    """How often a maximum is as large: Gumbel's law with the mean of those that were seen, and
    their spread as if 40 more with a standard deviation of 3.2 had been seen."""
    n = len(maxima)
    mean = sum(maxima) / n
    around = sum((other - mean) ** 2 for other in maxima) + 40 * 3.2**2
    scale = math.sqrt(6 * around / (n + 39)) / math.pi
    mode = mean - 0.5772156649015329 * scale
    distance = (value - mode) / scale
    # The mean and the scale are estimates, and errors of both make large values more probable.
    distance -= (math.pi**2 / 6 / n + 1.1 * min(max(distance, 0), 20) ** 2 / (n + 40)) / 2
    chance = 1 - math.exp(-math.exp(-distance)) if distance > -700 else 1.0
    reaching = sum(other >= value for other in maxima)
    fewer = sum(math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(reaching))
    if 1 - fewer < 0.05:  # the law says that so many would hardly have been seen
        return max(chance, reaching / (n + 1))
    return max(chance, 1e-6)


def measure_telling(probabilities, shared):
    """What a word contributes to how a topic differs from what is usual, with the sign of the
    difference: p log(p / s) - p + s."""
    telling = []
    for own, usual in zip(probabilities, shared, strict=True):
        ratio = own * math.log(own / usual) if own > 0 and usual > 0 else 0.0
        sign = -1 if own < usual else 1
        telling.append(sign * (ratio - own + usual) if usual > 0 else own)
    return telling


def lord_levels(share, alarms, lag):
    """LORD under local dependence, as its wealth is told: the levels of a series of tests, where
    `alarms` says of each whether it raised one. Half of the share is there from the start and paid
    out test by test; an alarm is paid for in the same way, from `lag` tests after it on."""
    total = sum(
        math.log(max(j, 2)) / (j * math.exp(math.sqrt(math.log(j)))) for j in range(1, 10**6)
    )
    # What the terms from a million on add, as an integral of u exp(-sqrt(u)) with u = log j.
    v = math.sqrt(math.log(10**6 - 0.5))
    total += 2 * math.exp(-v) * (v**3 + 3 * v**2 + 6 * v + 6)

    def pay(j):
        return math.log(max(j, 2)) / (j * math.exp(math.sqrt(math.log(j)))) / total

    incomes = [(0, share / 2)]
    levels = []
    for test in range(1, len(alarms) + 1):
        levels.append(sum(sum_ * pay(test - since) for since, sum_ in incomes if test > since))
        if alarms[test - 1]:
            incomes.append((test + lag, share if len(incomes) > 1 else share / 2))
    return levels
