"""Runs of any text, numbers, and the masks of logs and code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atd_dask.documents import Document
from atd_dask.text.counting import count_shard
from atd_dask.text.languages import LANGUAGES
from atd_dask.text.options import TextOptions
from atd_dask.text.splitting import MASKS, TOKENS
from atd_dask.text.words import LETTERS, STEMMERS, STOP_WORDS, Tokeniser

ODD = (
    "aéZ K²Ⅷ½_1İIΣςß\0\ufffd東京のカｶﾞ・々ไทยที่ขํ្ខ្មែрمی\u200c\u200d\xad\u0301\u0308.,:/-0xf\\<>@한ﷺ𠮷"
)
TEXTS = st.lists(
    st.text(st.characters(codec=None) | st.sampled_from(ODD), max_size=30)
    | st.from_regex(r"[0-9a-f:.]{1,20}|/[a-z/.]{1,20}|[A-Za-z_0-9]{1,20}", fullmatch=True),
    max_size=6,
).map(" ".join)
OPTIONS = st.builds(
    TextOptions,
    language=st.sampled_from([language for language in LANGUAGES if language != "auto"]),
    tokens=st.sampled_from(TOKENS),
    letters=st.sampled_from(LETTERS),
    min_letters=st.integers(1, 4),
    stop_words=st.sampled_from(STOP_WORDS),
    extra_stop_words=st.just(("<number>", "Éa")),
    stemmer=st.sampled_from(STEMMERS),
    segmentation=st.sampled_from(["icu", "bigrams"]),
)


class Shard:
    def __init__(self, text: str) -> None:
        self.text = text

    def read(self):
        yield Document("a", self.text)


@given(TEXTS, OPTIONS)
def test_words_are_found_in_their_places_for_any_text_and_options(
    text: str, options: TextOptions
) -> None:
    if options.segmentation == "icu":
        pytest.importorskip("icu4py", reason="needs the extra segmentation")
    tokeniser = Tokeniser(options)
    found = list(tokeniser.locate(text))
    words = tokeniser.words(text)
    assert [word for _, _, word in found] == words
    assert all(0 <= start < end <= len(text) for start, end, _ in found)
    starts = [start for start, _, _ in found]
    assert starts == sorted(starts)
    assert all(word and not any(map(str.isspace, word)) for word in words)


@given(TEXTS, OPTIONS)
def test_what_is_counted_are_the_words(text: str, options: TextOptions) -> None:
    if options.segmentation == "icu":
        pytest.importorskip("icu4py", reason="needs the extra segmentation")
    words = Tokeniser(options).words(text)
    counted = count_shard(Shard(text), options)
    if not words:
        assert [skip.reason for skip in counted.skipped] == ["its text has no words that are kept"]
        return
    terms = counted.batch.terms.tolist()
    bag = dict(zip((counted.words[t] for t in terms), counted.batch.counts.tolist(), strict=True))
    assert bag == {word: words.count(word) for word in words}


def split(text: str, tokens: str = "code") -> list[str]:
    return Tokeniser(TextOptions(tokens=tokens)).split(text)


def test_numbers_and_words_with_digits_are_kept() -> None:
    tokeniser = Tokeniser(TextOptions(tokens="words+numbers"))
    text = "In 2024, 42% of Covid19 cases: 3.14 at G7, 1,000 on 5 a1."
    assert tokeniser.words(text) == ["2024", "42", "covid19", "case", "3.14", "g7", "1,000", "a1"]
    assert [text[a:b] for a, b, _ in tokeniser.locate(text)][-3:] == ["G7", "1,000", "a1"]


@pytest.mark.parametrize(
    ("mask", "examples"),
    [
        (
            "<time>",
            [
                "2026-11-17",
                "2026-11-17T06:47:01.123Z",
                "2026-11-17 06:47:01,123",
                "2026/11/17 06:47",
                "2026-11-17T06:47:01+01:00",
                "17/Nov/2026:06:47:01 +0000",
                "06:47:01",
            ],
        ),
        (
            "<hash>",
            [
                "550e8400-e29b-41d4-a716-446655440000",
                "d41d8cd98f00b204e9800998ecf8427e",
                "3f2a9bc",
                "0xDEADBEEF",
            ],
        ),
        (
            "<ip>",
            ["10.0.0.1", "192.168.1.20:8080", "10.0.0.0/8", "fe80::1", "::1", "2001:db8:0:1::7"],
        ),
        (
            "<path>",
            [
                "/var/log/app.log",
                "../lib/x.so",
                r"C:\Users\me\file.txt",
                "https://example.org/a?b=1",
                "~/a/b",
            ],
        ),
        ("<number>", ["12345", "3.14", "35ms", "-1,024.5", "16GiB", "1.2.3"]),
    ],
)
def test_what_varies_is_masked(mask: str, examples: list[str]) -> None:
    assert mask in MASKS
    for example in examples:
        assert split(f"from {example} on") == ["from", mask, "on"], example
        assert split(f'"{example}", ({example})') == [mask, mask], example


def test_what_is_no_variable_part_is_not_masked() -> None:
    runs = split("status 404 of and/or effaced std::vector<int> x86 v2")
    assert " ".join(runs) == "status 404 of and or effaced std vector int x86 v2"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("getHTTPStatus_code2", ["get", "http", "status", "code2"]),
        ("__init__", ["init"]),
        ("MAX_VALUE", ["max", "value"]),
        ("utf8Decoder", ["utf8", "decoder"]),
        ("größeÄndern", ["größe", "ändern"]),
        ("a__b", ["a", "b"]),
        ("XMLParser", ["xml", "parser"]),
        ("self.fooBar[i]", ["self", "foo", "bar", "i"]),
    ],
)
def test_names_are_cut(name: str, parts: list[str]) -> None:
    assert split(name) == parts


def test_lines_of_a_log_that_differ_in_variable_parts_have_the_same_words() -> None:
    tokeniser = Tokeniser(TextOptions(tokens="code"))
    lines = [
        "2026-11-17 06:47:01,120 ERROR connectionPool: 10.0.0.1:8080 timed out after 3000ms"
        " reading /srv/data/a.bin request=550e8400-e29b-41d4-a716-446655440000",
        "2025-01-02 23:00:59,001 ERROR connectionPool: 10.9.8.7:9090 timed out after 12.5s"
        " reading /srv/data/b/c.bin request=111e8400-e29b-41d4-a716-446655440fff",
    ]
    first, second = map(tokeniser.words, lines)
    assert first == second
    assert first[:4] == ["<time>", "error", "connect", "pool"]
    start, end, word = next(found for found in tokeniser.locate(lines[0]) if found[2] == "<ip>")
    assert (lines[0][start:end], word) == ("10.0.0.1:8080", "<ip>")


def test_masks_can_be_stopped() -> None:
    options = TextOptions(tokens="code", extra_stop_words=("<Time>",))
    assert Tokeniser(options).words("06:47:01 failed") == ["fail"]
