"""Words as firing rates: what is a word, what is its vector, what training finds, files, and spikes as events."""

import copy
import math
import pickle
import re

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from snnkit import train
from snnkit.lab import text
from snnkit.lab.text import SparseSpikes, Vocabulary, embedding as module, split_sentences, tokenize
from snnkit.neuron import Leaky

WORDS = ["dog", "cat", "bread", "soup", "rome"]


def small(**arguments):
    torch.manual_seed(0)
    vocabulary = Vocabulary(WORDS, list(torch.ones(5).int()))
    return text.SpikingEmbedding(vocabulary, **{"features": 8, "steps": 5, "engine": "eager", **arguments})


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_text, words",
    [
        ("Don't stop: it's a well-kept 2nd dog!", ["don't", "stop", "it's", "a", "well-kept", "2nd", "dog"]),
        ("it’s", ["it's"]),
        ("- dog's' -- 'cat'", ["dog's", "cat"]),
        ("snake_case", ["snake", "case"]),
        ("Čeština ÉTÉ e\u0301te\u0301", ["čeština", "été", "été"]),
        ("  \n\t ", []),
    ],
)
def test_words(given_text, words):
    assert tokenize(given_text) == words


def test_sentences_and_vocabularies():
    assert split_sentences("One dog. Two cats!\nThree?  ") == ["One dog", " Two cats", "Three"]
    assert split_sentences(word for word in ("a b.", "c")) == ["a b.", "c"]
    vocabulary = Vocabulary.build("b a b. c d a b")
    assert vocabulary.words == ["b", "a", "c", "d"] and vocabulary.counts == [3, 2, 1, 1]
    assert len(vocabulary) == 4 and "c" in vocabulary and "e" not in vocabulary
    assert vocabulary.numbers("a new B") == [1, 0] and vocabulary.number("A") == 1


def test_bad_vocabularies_and_unknown_words():
    for words, counts in (("abc", None), ([1, 2], None), ([], None), (["a", "a"], None), (["a"], [1, 2]), (["a"], [0])):
        with pytest.raises((TypeError, ValueError), match=r"^(words|counts)[^,]* must be"):
            Vocabulary(words, counts)
    with pytest.raises(ValueError, match="texts must contain at least one word"):
        Vocabulary.build(["?!"])
    vocabulary = Vocabulary.build(text.corpus(0, 2000))
    with pytest.raises(ValueError, match="word must be in the vocabulary, but it is 'hores'; did you mean 'horse'"):
        vocabulary.number("hores")
    with pytest.raises(ValueError, match="at least one known word, but it is 'hores zzz'; did you mean 'horse'"):
        vocabulary.numbers("hores zzz")


def test_the_grammar_speaks_of_all_groups_as_its_seed_says():
    sentences = text.corpus()
    assert text.corpus(1, 300) == text.corpus(1, 500)[:300] != text.corpus(2, 300)
    assert all(re.fullmatch("[a-z]+( [a-z]+)+", sentence) for sentence in sentences)
    counts = dict(zip(*(lambda v: (v.words, v.counts))(Vocabulary.build(sentences)), strict=True))
    members = [word for group in text.GROUPS.values() for word in group]
    assert len(set(members)) == len(members) and min(counts[word] for word in members) >= 20


# --- vectors ----------------------------------------------------------------------------------------------------------


def test_a_vector_is_the_rate_of_neurons_that_a_row_drives():
    embedding = small()
    spikes, state = embedding(torch.tensor([[1, 4]]))
    assert spikes.shape == (5, 1, 2, 8) and state.mem.shape == (1, 2, 8)
    assert small(steps=2**60).rheobase == pytest.approx(1 - module.BETA)
    drive = embedding.table.weight[[1, 4]] * embedding.rheobase
    expected, _ = Leaky(0.9, engine="eager")(drive.expand(5, 2, 8))
    assert torch.equal(spikes[:, 0], expected) and 0 < expected.mean() < 1
    assert torch.equal(embedding.vectors(["cat", "Rome"]), expected.mean(0))
    assert embedding.vectors("rome").shape == (1, 8)
    assert torch.equal(embedding.sparse("cat in rome").dense(), expected)


@pytest.mark.parametrize("steps", [1, 7])
def test_a_weight_of_one_is_where_a_neuron_begins_to_fire(steps):
    embedding = small(steps=steps).double()
    with torch.no_grad():
        embedding.table.weight.copy_(torch.tensor([0.999, 1.001] * 4))
    spikes, _ = embedding(torch.tensor([0]))
    assert spikes.sum(0)[0].tolist() == spikes[-1, 0].tolist() == [0, 1] * 4


def test_sentences_and_neighbours():
    embedding = small()
    expected = embedding.vectors(["dog", "bread"]).mean(0)
    vectors = embedding.sentence_vectors(["The dog (hungry) saw bread", "rome"])
    torch.testing.assert_close(vectors, torch.stack([expected, embedding.vectors("rome")[0]]))
    near = embedding.most_similar("cat", 4)
    assert sorted(word for word, _ in near) == sorted(set(WORDS) - {"cat"})
    assert near == sorted(near, key=lambda pair: -pair[1])
    for word, cosine in near:
        same = torch.cosine_similarity(*embedding.vectors(["cat", word]), dim=0)
        assert cosine == pytest.approx(float(same), abs=1e-6)
    rows = embedding.nearest(embedding.vectors(["cat", "soup"]), 2)
    assert [row[0][0] for row in rows] == ["cat", "soup"] and rows[0][0][1] == pytest.approx(1)
    with pytest.raises(ValueError, match="k must be at most 4, but it is 5"):
        embedding.most_similar("dog", 5)


# --- training ---------------------------------------------------------------------------------------------------------


def test_training_finds_the_groups_with_few_spikes():
    train.seed_everything(0)
    sentences = text.corpus(0)
    embedding = text.SpikingEmbedding(Vocabulary.build(sentences))
    assert text.agreement(embedding) < 0.25
    losses = embedding.fit(sentences, device="cpu", progress=False)
    assert text.agreement(embedding) > 0.9
    for word, group in (("dog", "animal"), ("paris", "city"), ("violin", "instrument")):
        assert all(other in text.GROUPS[group] for other, _ in embedding.most_similar(word, 3))
    assert losses[-1] < 0.8 * losses[0] < 0.8 * math.log(2) * 6 and len(losses) == 3
    events = embedding.sparse("the dog eats the bread")
    assert 0.005 < events.density < 0.2 and events.bytes < events.dense_bytes / 4


def test_one_seed_one_result():
    sentences = text.corpus(3, 150)

    def run(seed):
        train.seed_everything(1)
        embedding = text.SpikingEmbedding(Vocabulary.build(sentences), 16, 4, engine="eager")
        losses = embedding.fit(sentences, epochs=2, seed=seed, device="cpu", progress=False)
        return embedding.table.weight.detach(), losses

    (one, losses), (other, others), (third, _) = run(5), run(5), run(6)
    assert torch.equal(one, other) and losses == others and not torch.equal(one, third)


def test_a_loss_that_is_no_number_leaves_the_weights():
    embedding = small()
    with torch.no_grad():
        embedding.context.weight[:] = math.inf
    before = copy.deepcopy(embedding.state_dict())
    with pytest.raises(FloatingPointError, match=r"the loss must be finite, .* try a lr below 0.1"):
        embedding.fit("dog cat bread soup rome dog", device="cpu", progress=False)
    with pytest.raises(ValueError, match="a sentence with at least two words of the vocabulary"):
        embedding.fit("dog. cat", device="cpu", progress=False)
    assert all(torch.equal(before[name], tensor) for name, tensor in embedding.state_dict().items())


# --- copies and files -------------------------------------------------------------------------------------------------


def test_copies_answer_alike(tmp_path):
    embedding = small()
    embedding.fit("dog cat bread soup. rome cat dog", epochs=2, device="cpu", progress=False)
    file = embedding.save(tmp_path / "deep" / "words.pt")
    loaded = text.SpikingEmbedding.load(file, engine="eager")
    for other in (copy.deepcopy(embedding), pickle.loads(pickle.dumps(embedding)), loaded):
        assert other.most_similar("dog", 4) == embedding.most_similar("dog", 4)
        assert other.vocabulary.words == WORDS and other.steps == 5
        assert torch.equal(other.context.weight, embedding.context.weight)


@pytest.mark.parametrize("change", [{"words": ["a"]}, {"counts": ["many"]}, {"features": 2.5}, {"kind": "other"}])
def test_files_with_other_contents(tmp_path, change):
    file = small().save(tmp_path / "words.pt")
    content = torch.load(file)
    torch.save(content | {"extra": content["extra"] | change}, file)
    with pytest.raises(ValueError, match=r"words\.pt (holds a damaged|must hold a) SpikingEmbedding"):
        text.SpikingEmbedding.load(file)
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        text.SpikingEmbedding.load(tmp_path / "none.pt")


# --- events -----------------------------------------------------------------------------------------------------------


def spikes(*shape, density=0.2, seed=0):
    return (torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < density).float()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=4), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 3))
def test_there_and_back(shape, density, seed):
    dense = spikes(*shape, density=density, seed=seed)
    events = SparseSpikes.of(dense)
    assert torch.equal(events.dense(), dense)
    assert len(events) == dense.sum() and events.density == pytest.approx(len(events) / max(dense.numel(), 1))


def test_bytes_by_hand():
    events = SparseSpikes.of(torch.tensor([[[1.0, 0, 1]], [[0, 0, 0]]]))
    assert events.neuron.tolist() == [0, 2] and events.start.tolist() == [0, 2, 2]
    assert SparseSpikes.of(torch.ones(1, 2**15)).neuron.dtype == torch.int16
    wide = SparseSpikes.of(torch.ones(1, 2**15 + 1))
    assert wide.neuron.dtype == torch.int32 and wide.neuron[-1] == 2**15
    for wrong in (torch.ones(3), torch.tensor([[0.0, 0.5]]), torch.tensor([[0.0, float("nan")]])):
        with pytest.raises(ValueError, match=r"spikes must be \[T, ..., N\] of 0 and 1"):
            SparseSpikes.of(wrong)


def test_linear_layers_event_by_event():
    dense, layer = spikes(5, 3, 4, 20).double(), nn.Linear(20, 7).double()
    events = SparseSpikes.of(dense)
    out = events.linear(layer.weight, layer.bias)
    torch.testing.assert_close(out, layer(dense))
    expected = torch.autograd.grad(layer(dense).square().sum(), layer.parameters())
    torch.testing.assert_close(torch.autograd.grad(out.square().sum(), layer.parameters()), expected)
    torch.testing.assert_close(events.linear(layer.weight), layer(dense) - layer.bias)
    assert not SparseSpikes.of(torch.zeros(2, 1, 20)).linear(layer.weight).any()
