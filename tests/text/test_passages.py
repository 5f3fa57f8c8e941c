from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atd_dask.text.options import TextOptions
from atd_dask.text.passages import EXCERPT, WHOLE, Piece, find_forms, mark_words
from atd_dask.text.words import Tokeniser
from atd_dask.wording import clean_lines

TOKENISER = Tokeniser(TextOptions())
KINDS = {"coffe": "more", "export": "more", "bank": "less"}


def mark(text: str):
    return mark_words(text, TOKENISER.locate(text), KINDS)


def join(pieces) -> str:
    return "".join(piece.text for piece in pieces)


def test_every_form_of_a_word_is_marked() -> None:
    passage = mark("Exporting coffee, EXPORTS of Coffees; banks, bankers.")
    assert passage.excerpt == (
        Piece("Exporting", "more"),
        Piece(" "),
        Piece("coffee", "more"),
        Piece(", "),
        Piece("EXPORTS", "more"),
        Piece(" of "),
        Piece("Coffees", "more"),
        Piece("; "),
        Piece("banks", "less"),
        Piece(", bankers."),
    )
    assert passage.whole == ()


def test_pairs_of_letters_that_overlap_are_shown_once() -> None:
    tokeniser = Tokeniser(TextOptions(language="japanese", segmentation="bigrams"))
    text = "新東京都庁 Tower"
    kinds = {"東京": "more", "京都": "more", "都庁": "less"}
    assert mark_words(text, tokeniser.locate(text), kinds).excerpt == (
        Piece("新"),
        Piece("東京", "more"),
        Piece("都", "more"),
        Piece("庁", "less"),
        Piece(" Tower"),
    )


def test_a_long_text_is_shown_by_its_richest_passage() -> None:
    text = "coffee " + "nothing here " * 1000 + "coffee exports, coffee " + "or there " * 1000
    passage = mark(text)
    for pieces, size in ((passage.excerpt, EXCERPT), (passage.whole, WHOLE)):
        shown = join(pieces)
        assert shown.startswith("… ")
        assert shown.endswith(" …")
        assert "coffee exports, coffee" in shown
        assert size * 0.8 < len(shown) <= size + 4
        assert [piece.kind for piece in pieces if piece.kind] == ["more"] * 3
        assert {"coffee", "exports,", "nothing", "here", "or", "there", "…"} == set(shown.split())
    assert passage.note.endswith(
        f" of {len(text):,} characters: the passage with the most words of the topic."
    )


def test_a_long_text_without_any_of_the_words_is_shown_from_its_start() -> None:
    passage = mark("plain words " * 1000)
    assert join(passage.excerpt).startswith("plain words plain")
    assert not any(piece.kind for piece in passage.whole)


def test_lines_stay_and_empty_ones_are_few() -> None:
    assert join(mark("one\r\n\n\n \t\n\n  two\n   three \t four").excerpt) == (
        "one\n\ntwo\n three four"
    )


@given(st.text(max_size=EXCERPT), st.text(max_size=30))
def test_nothing_of_a_short_text_is_lost_or_added(text: str, more: str) -> None:
    for whole in (text, f"{text} coffee {more}"[:EXCERPT]):
        assert join(mark(whole).excerpt).split() == clean_lines(whole).split()


@given(st.text(st.sampled_from("coffee bank \n\0x"), max_size=3 * EXCERPT))
def test_a_passage_is_a_part_of_its_text(text: str) -> None:
    passage = mark(text)
    shown = "".join(join(passage.excerpt).removeprefix("… ").removesuffix(" …").split())
    assert shown in "".join(clean_lines(text).split())


def test_forms_are_the_most_frequent_ones() -> None:
    texts = ["Exports and exporting", "exports", "BANKS bank"]
    assert find_forms(texts, TOKENISER) == {"export": "exports", "bank": "bank"}
