"""SpikingEmbedding: vectors are firing rates, neighbours are of the same kind after training, copies are equal."""

import copy
import math
import pickle

import pytest
import torch
from torch.nn import functional

from snnkit import neuron, text, train
from snnkit.neuron import Leaky
from snnkit.surrogate import FastSigmoid
from snnkit.text import embedding as module

WORDS = ["dog", "cat", "bread", "soup", "rome"]


def small(**arguments):
    torch.manual_seed(0)
    return text.SpikingEmbedding(text.Vocabulary(WORDS), **{"features": 8, "steps": 5, "engine": "eager", **arguments})


@pytest.fixture(scope="module")
def trained():
    train.seed_everything(0)
    sentences = text.corpus(0)
    embedding = text.SpikingEmbedding(text.Vocabulary.build(sentences))
    before = text.agreement(embedding)
    return embedding, embedding.fit(sentences, seed=0, device="cpu", progress=False), before


# --- what a vector is ------------------------------------------------------------------------------------------------


def test_a_vector_is_the_rate_of_neurons_that_a_row_drives():
    embedding = small(beta=0.8, threshold=0.5)
    spikes, state = embedding(torch.tensor([[1, 4]]))
    assert spikes.shape == (5, 1, 2, 8) and state.mem.shape == (1, 2, 8)
    drive = embedding.table.weight[[1, 4]] * embedding.rheobase
    expected, _ = Leaky(0.8, 0.5, engine="eager")(drive.expand(5, 2, 8))
    assert torch.equal(spikes[:, 0], expected) and 0 < expected.mean() < 1
    assert torch.equal(embedding.vectors(["cat", "rome"]), expected.mean(0))
    assert torch.equal(embedding.rates(torch.tensor(1)), expected.mean(0)[0])
    first, middle = embedding(torch.tensor([2]))
    again, _ = embedding(torch.tensor([2]), middle)
    long = small(beta=0.8, threshold=0.5, steps=10)
    drive = embedding.table.weight[[2]] * embedding.rheobase
    both, _ = long.neuron(drive.expand(10, 1, 8))
    assert torch.equal(torch.cat([first, again]), both)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("steps", [1, 7])
def test_a_weight_of_one_is_where_a_neuron_begins_to_fire(beta, steps):
    embedding = small(beta=beta, threshold=0.7, steps=steps).double()
    with torch.no_grad():
        embedding.table.weight.copy_(torch.tensor([0.999, 1.001] * 4))
    spikes, _ = embedding(torch.tensor([0]))
    assert spikes.sum(0)[0].tolist() == [0, 1] * 4 if beta else spikes.sum(0)[0, ::2].tolist() == [0] * 4
    assert spikes[-1, 0].tolist() == [0, 1] * 4


def test_a_sentence_is_the_mean_of_its_known_words():
    embedding = small()
    expected = embedding.vectors(["dog", "bread"]).mean(0)
    vectors = embedding.sentence_vectors(["The dog (hungry) saw bread", "rome"])
    torch.testing.assert_close(vectors, torch.stack([expected, embedding.vectors("rome")[0]]))
    torch.testing.assert_close(embedding.sentence_vectors("dog bread")[0], expected)
    assert embedding.vectors("Rome").shape == (1, 8) and embedding.vectors([]).shape == (0, 8)
    a, b = embedding.vectors(["dog", "soup"])
    assert embedding.similarity("dog", "soup") == pytest.approx(float(functional.cosine_similarity(a, b, dim=0)))


def test_sparse_spikes_of_a_text():
    embedding = small()
    events = embedding.sparse("dog and soup")
    assert torch.equal(events.dense(), embedding(torch.tensor([0, 3]))[0]) and events.shape == (5, 2, 8)


def test_neighbours_are_sorted_and_not_the_word_itself():
    embedding = small()
    near = embedding.most_similar("cat", 4)
    assert sorted(word for word, _ in near) == sorted(set(WORDS) - {"cat"})
    assert near == sorted(near, key=lambda pair: -pair[1])
    for word, cosine in near:
        assert cosine == pytest.approx(embedding.similarity("cat", word), abs=1e-6)
    assert {word for word, _ in embedding.most_similar("cat and dog", 3)} == {"bread", "soup", "rome"}
    rows = embedding.nearest(embedding.vectors(["cat", "soup"]), 2)
    assert [row[0][0] for row in rows] == ["cat", "soup"] and rows[0][0][1] == pytest.approx(1)


def test_all_words_at_once_or_in_parts(monkeypatch):
    embedding = small()
    whole = embedding.most_similar("dog", 4)
    monkeypatch.setattr("snnkit.text.embedding._AT_ONCE", 1)
    assert embedding.most_similar("dog", 4) == whole


# --- training --------------------------------------------------------------------------------------------------------


def test_training_finds_the_groups(trained):
    embedding, history, before = trained
    after = text.agreement(embedding)
    assert before.within - before.between < 0.05 and before.neighbours < 0.25
    assert after.within > after.between + 0.4
    assert after.neighbours > 0.9
    for word, group in (("dog", "animal"), ("paris", "city"), ("violin", "instrument")):
        assert all(other in text.GROUPS[group] for other, _ in embedding.most_similar(word, 3))
    assert embedding.similarity("the dog", "a cat") > embedding.similarity("the dog", "a city")
    assert history.loss[-1] < 0.8 * history.loss[0] < 0.8 * math.log(2) * 6
    assert not history.interrupted and len(history.rate) == len(history.pairs) == len(history.seconds) == 3


def test_training_keeps_the_spikes_few(trained):
    embedding, history, _ = trained
    assert 0.01 < history.rate[-1] < 0.12
    events = embedding.sparse("the dog eats the bread")
    assert 0.005 < events.density < 0.2 and events.bytes < events.dense_bytes / 4


def test_one_seed_one_result():
    sentences = text.corpus(3, 150)

    def run(seed):
        train.seed_everything(1)
        embedding = text.SpikingEmbedding(text.Vocabulary.build(sentences), 16, 4, engine="eager")
        history = embedding.fit(sentences, epochs=2, seed=seed, device="cpu", progress=False)
        return embedding.table.weight.detach(), history.loss

    (one, losses), (other, others), (third, _) = run(5), run(5), run(6)
    assert torch.equal(one, other) and losses == others and not torch.equal(one, third)


def test_pairs_are_neighbours_within_a_sentence():
    words, sentence = torch.tensor([10, 11, 12, 20, 21]), torch.tensor([0, 0, 0, 1, 1])
    near, far = (set(zip(*(t.tolist() for t in module._pairs(words, sentence, w)), strict=True)) for w in (1, 9))
    assert near == {(10, 11), (11, 10), (11, 12), (12, 11), (20, 21), (21, 20)}
    assert far == near | {(10, 12), (12, 10)}


def test_random_words_follow_their_weights():
    drawn = module._draw(torch.tensor([1.0, 1.0, 4.0]), (40_000,), torch.Generator().manual_seed(0))
    share = drawn.bincount(minlength=3) / len(drawn)
    torch.testing.assert_close(share, torch.tensor([0.25, 0, 0.75]), atol=0.01, rtol=0)


def test_the_loss_by_hand():
    rates, near = torch.tensor([[0.5, 0.25]]), torch.tensor([[2.0, -4.0]])
    others = torch.tensor([[[1.0, 0.0], [0.0, 4.0]]])

    def sigmoid(z):
        return 1 / (1 + math.exp(-z))

    expected = -math.log(sigmoid(0)) - math.log(sigmoid(-0.5)) - math.log(sigmoid(-1))
    assert float(module._loss(rates, near, others)) == pytest.approx(expected)


def test_interrupted(monkeypatch):
    embedding, calls = small(), []

    def stop(numbers):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return text.SpikingEmbedding.rates(embedding, numbers)

    monkeypatch.setattr(embedding, "rates", stop)
    history = embedding.fit("dog cat bread", epochs=5, subsample=9.0, device="cpu", progress=False)
    assert history.interrupted and len(history.loss) == 2


def test_a_loss_that_is_no_number_leaves_the_weights():
    embedding = small()
    with torch.no_grad():
        embedding.context.weight[0, 0] = math.inf
    before = copy.deepcopy(embedding.state_dict())
    with pytest.raises(FloatingPointError, match=r"the loss is (nan|inf) in epoch 1.*lower lr \(it is 0.1\)"):
        embedding.fit("dog cat bread dog", subsample=9.0, device="cpu", progress=False)
    assert all(torch.equal(before[name], tensor) for name, tensor in embedding.state_dict().items())


@pytest.mark.parametrize(
    "texts, options, error, says",
    [
        ("zzz yyy", {}, ValueError, "a sentence with at least two words of the vocabulary"),
        (["dog", "cat"], {}, ValueError, "a sentence with at least two words of the vocabulary"),
        ("", {}, ValueError, "a sentence with at least two words of the vocabulary"),
        (7, {}, TypeError, "texts must be a str or an iterable"),
        ("dog cat", {"epochs": 0}, ValueError, "epochs must be at least 1, but it is 0"),
        ("dog cat", {"window": 1.5}, TypeError, "window must be an integer, but it is 1.5"),
        ("dog cat", {"negatives": True}, TypeError, "negatives must be an integer, but it is True"),
        ("dog cat", {"lr": 0.0}, ValueError, "lr must be greater than 0, but it is 0.0"),
        ("dog cat", {"subsample": math.nan}, ValueError, "subsample must be finite"),
        ("dog cat", {"max_rate": -0.1}, ValueError, "max_rate must be at least 0, but it is -0.1"),
        ("dog cat", {"rate_penalty": "1"}, TypeError, "rate_penalty must be a number, but it is '1'"),
        ("dog cat", {"seed": 1.5}, TypeError, "seed must be an integer, but it is 1.5"),
        ("dog cat", {"device": "nowhere"}, ValueError, "device must be"),
    ],
)
def test_bad_training(texts, options, error, says):
    with pytest.raises(error, match=says):
        small().fit(texts, progress=False, **options)


# --- copies and files ------------------------------------------------------------------------------------------------


def test_copies_answer_alike(tmp_path):
    embedding = small(beta=0.7, threshold=0.5, surrogate=FastSigmoid(3.0))
    embedding.fit("dog cat bread soup. rome cat dog", epochs=2, device="cpu", progress=False)
    file = embedding.save(tmp_path / "deep" / "words.pt")
    loaded = text.SpikingEmbedding.load(file, engine="eager")
    for other in (copy.deepcopy(embedding), pickle.loads(pickle.dumps(embedding)), loaded):
        assert other.most_similar("dog", 4) == embedding.most_similar("dog", 4)
        assert other.vocabulary.words == WORDS and other.vocabulary is not embedding.vocabulary
        assert (other.steps, other.neuron.beta, other.neuron.threshold) == (5, 0.7, 0.5)
        assert torch.equal(other.context.weight, embedding.context.weight)
    assert isinstance(loaded.neuron, neuron.Leaky) and next(loaded.parameters()).requires_grad


def test_precision_goes_along(tmp_path):
    embedding = small().double()
    assert embedding(torch.tensor([0]))[0].dtype == embedding.sentence_vectors("dog cat").dtype == torch.float64
    loaded = text.SpikingEmbedding.load(embedding.save(tmp_path / "words.pt"))
    assert torch.equal(loaded.table.weight, embedding.table.weight) and loaded.table.weight.dtype == torch.float64
    half = small().bfloat16()
    assert half.most_similar("dog", 2) and half(torch.tensor([0]))[0].dtype == torch.bfloat16


def test_a_file_with_a_policy_that_is_gone_is_refused_by_name(tmp_path):
    file = small().save(tmp_path / "words.pt")
    content = torch.load(file)
    torch.save(content | {"extra": content["extra"] | {"unknown": "skip"}}, file)
    assert text.SpikingEmbedding.load(file).vocabulary.words == WORDS
    torch.save(content | {"extra": content["extra"] | {"unknown": "token"}}, file)
    with pytest.raises(ValueError, match=r"words\.pt was saved with unknown='token'"):
        text.SpikingEmbedding.load(file)


def test_files_that_hold_something_else(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        text.SpikingEmbedding.load(tmp_path / "none.pt")
    other = train.save_checkpoint(tmp_path / "net.pt", torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"net.pt holds no SpikingEmbedding"):
        text.SpikingEmbedding.load(other)
    file = small().save(tmp_path / "words.pt")
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"words.pt can't be read"):
        text.SpikingEmbedding.load(file)


@pytest.mark.parametrize(
    "change",
    [{"words": None}, {"words": ["a"]}, {"counts": ["many"]}, {"features": 2.5}, {"beta": "x"}, {"dtype": "nn"}, None],
)
def test_files_with_other_contents(tmp_path, change):
    file = small().save(tmp_path / "words.pt")
    content = torch.load(file)
    content["extra"] = content["extra"] | change if change else {"kind": content["extra"]["kind"]}
    torch.save(content, file)
    with pytest.raises(ValueError, match=r"words\.pt holds a damaged SpikingEmbedding"):
        text.SpikingEmbedding.load(file)


def test_a_wrong_argument_is_not_the_files_fault(tmp_path):
    file = small().save(tmp_path / "words.pt")
    with pytest.raises(ValueError, match=r"^engine must be one of"):
        text.SpikingEmbedding.load(file, engine="warp")


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        ({"features": 0}, ValueError, "features must be at least 1, but it is 0"),
        ({"steps": 2.0}, TypeError, "steps must be an integer, but it is 2.0"),
        ({"beta": 1.5}, ValueError, "beta of Leaky must be at most 1"),
        ({"beta": torch.ones(2)}, TypeError, r"beta must be a number, but it is a Tensor of shape \[2\]"),
        ({"threshold": 0.0}, ValueError, "threshold of Leaky must be greater than 0"),
        ({"engine": "warp"}, ValueError, "engine must be one of"),
    ],
)
def test_bad_settings(arguments, error, says):
    with pytest.raises(error, match=says):
        small(**arguments)


def test_bad_questions():
    embedding = small()
    with pytest.raises(TypeError, match="vocabulary must be a Vocabulary"):
        text.SpikingEmbedding(WORDS)
    for ask in (embedding.most_similar, embedding.sparse, embedding.sentence_vectors):
        with pytest.raises(ValueError, match="at least one word, but it is ''"):
            ask("")
        with pytest.raises(ValueError, match=r"at least one known word, but none of 'zzz' .*5 words"):
            ask("zzz")
    with pytest.raises(ValueError, match="did you mean 'bread'"):
        embedding.similarity("dog", "braed")
    with pytest.raises(ValueError, match="word 'braed' is not in the vocabulary of 5 words; did you mean 'bread'"):
        embedding.vectors(["dog", "braed"])
    for value in (torch.nan, torch.inf):
        vectors = torch.ones(3, 8)
        vectors[1, 2] = value
        with pytest.raises(ValueError, match="vectors must hold finite numbers, but row 1 has NaN or infinity"):
            embedding.nearest(vectors, 2)
    with pytest.raises(ValueError, match="k must be at most 4, but it is 5"):
        embedding.most_similar("dog", 5)
    with pytest.raises(ValueError, match="k must be at least 1"):
        embedding.most_similar("dog", 0)
    with pytest.raises(TypeError, match="k must be an integer"):
        embedding.most_similar("dog", 2.5)
    with pytest.raises(ValueError, match=r"vectors must be a tensor \[N, 8\], but it is a Tensor of shape \[8\]"):
        embedding.nearest(torch.ones(8), 2)
    with pytest.raises(TypeError, match=r"numbers must be a tensor of int64 .* but it is torch.float32"):
        embedding(torch.ones(2))
    with pytest.raises(ValueError, match="texts must hold at least one sentence"):
        embedding.sentence_vectors([])
    with pytest.raises(ValueError, match="groups must be at least two"):
        text.agreement(embedding, {"animal": ["dog", "cat"]})
    found = text.agreement(embedding, {"animal": ["dog", "cat"], "food": ["bread", "soup"]})
    assert found.within == pytest.approx(
        (embedding.similarity("dog", "cat") + embedding.similarity("bread", "soup")) / 2, abs=1e-6
    )
