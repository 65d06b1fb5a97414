"""Tokenizer, vocabulary and the grammar: what is a word, which are known, and what is said about the others."""

import collections
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snnkit import text
from snnkit.text import Vocabulary, split_sentences, tokenize


@pytest.mark.parametrize(
    "given_text, words",
    [
        ("The dog eats.", ["the", "dog", "eats"]),
        ("Don't stop: it's a well-kept 2nd dog!", ["don't", "stop", "it's", "a", "well-kept", "2nd", "dog"]),
        ("it’s", ["it's"]),
        ("- dog's' -- 'cat'", ["dog's", "cat"]),
        ("snake_case", ["snake", "case"]),
        ("Čeština ÉTÉ", ["čeština", "été"]),
        ("e\u0301te\u0301", ["été"]),
        ("  \n\t ", []),
    ],
)
def test_words(given_text, words):
    assert tokenize(given_text) == words


@given(st.text(max_size=60))
def test_words_are_in_the_text_and_tokenizing_them_again_changes_nothing(given_text):
    words = tokenize(given_text)
    assert all(word and not re.search(r"\s", word) for word in words)
    assert tokenize(" ".join(words)) == words


def test_sentences():
    assert split_sentences("One dog. Two cats!\nThree?  ") == ["One dog", " Two cats", "Three"]
    assert split_sentences(word for word in ("a b.", "c")) == ["a b.", "c"]
    with pytest.raises(TypeError, match="texts must be a str or an iterable of str, but it is 3"):
        split_sentences(3)
    with pytest.raises(TypeError, match=r"texts\[1\] must be a str, but it is b'b'"):
        split_sentences(["a", b"b"])


def test_frequent_words_come_first_and_equal_ones_in_order():
    vocabulary = Vocabulary.build("b a b. c d a b")
    assert vocabulary.words == ["b", "a", "c", "d"]
    assert vocabulary.counts == [3, 2, 1, 1]
    assert Vocabulary.build("b a b. c d a b", min_count=2).words == ["b", "a"]
    assert Vocabulary.build("b a b. c d a b", max_words=3).words == ["b", "a", "c"]
    assert len(vocabulary) == 4 and "c" in vocabulary and "e" not in vocabulary and list(vocabulary) == vocabulary.words


def test_unknown_words_are_left_out():
    assert Vocabulary.build("a b a b rare", min_count=2).numbers("a new B") == [0, 1]


def test_an_unknown_word_brings_suggestions():
    vocabulary = Vocabulary.build(text.corpus(0, 2000))
    with pytest.raises(ValueError, match=r"word 'hores' is not in the vocabulary of \d+ words; did you mean 'horse'"):
        vocabulary.number("hores")
    with pytest.raises(ValueError, match=r"at least one known word, but none of 'hores zzz' .* 'horse'"):
        vocabulary.numbers("hores zzz")
    assert vocabulary.number("Horse") == vocabulary.number("horse")


@pytest.mark.parametrize("nothing", ["", "  ", "?!"])
def test_a_text_without_words(nothing):
    vocabulary = Vocabulary(["a"])
    with pytest.raises(ValueError, match="text must contain at least one word"):
        vocabulary.numbers(nothing)
    with pytest.raises(ValueError, match="word must be one word"):
        vocabulary.number(nothing)
    with pytest.raises(ValueError, match="texts must contain at least one word, but there is none"):
        Vocabulary.build([nothing])


def test_bad_vocabularies():
    for wrong in ("abc", 3, [1, 2], None):
        with pytest.raises(TypeError, match="words must be a sequence of str"):
            Vocabulary(wrong)
    for words, arguments, says in (
        ([], {}, "words must hold at least one word"),
        (["a", "b", "a"], {}, "words must all be different, but 'a' is there more than once"),
        (["a"], {"counts": [1, 2]}, "counts must be one per word, 1, but there are 2"),
        (["a"], {"counts": [-1]}, "counts must be 0 or more"),
        (["a"], {"counts": [0]}, "counts must be 0 or more, and not all 0"),
    ):
        with pytest.raises(ValueError, match=says):
            Vocabulary(words, **arguments)
    with pytest.raises(ValueError, match=r"min_count must be at most 2, .* but it is 3"):
        Vocabulary.build("a a b", min_count=3)
    with pytest.raises(ValueError, match="max_words must be at least 1, but it is 0"):
        Vocabulary.build("a a b", max_words=0)
    with pytest.raises(TypeError, match="min_count must be an integer"):
        Vocabulary.build("a a b", min_count=1.5)
    with pytest.raises(TypeError, match=r"text must be a str, but it is \['a'\]"):
        Vocabulary(["a"]).numbers(["a"])
    with pytest.raises(TypeError, match="word must be a str, but it is 0"):
        Vocabulary(["a"]).number(0)


def test_the_grammar_draws_what_its_seed_says():
    first = text.corpus(1, 300)
    assert text.corpus(1, 300) == first and text.corpus(2, 300) != first and text.corpus(1, 500)[:300] == first
    for wrong in ({"seed": "a"}, {"sentences": 2.0}, {"sentences": True}):
        with pytest.raises(TypeError, match="must be an integer"):
            text.corpus(**wrong)
    with pytest.raises(ValueError, match="sentences must be at least 1"):
        text.corpus(sentences=0)


def test_the_grammar_speaks_of_all_groups_in_whole_sentences():
    sentences = text.corpus()
    assert all(re.fullmatch("[a-z]+( [a-z]+)+", sentence) for sentence in sentences)
    counted = collections.Counter(word for sentence in sentences for word in sentence.split())
    members = [word for group in text.GROUPS.values() for word in group]
    assert len(set(members)) == len(members)
    assert min(counted[word] for word in members) >= 20
    frames = {" ".join("_" if word in members else word for word in sentence.split()) for sentence in sentences}
    for name, group in text.GROUPS.items():
        assert len(set(group)) == 12, name
    assert len(frames) > 60
