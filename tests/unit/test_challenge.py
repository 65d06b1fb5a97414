"""The challenge: what is counted, who is refused with which words; score, leaderboard and references."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from snnkit import data, encode, neuron, nn
from snnkit.lab import challenge
from snnkit.lab.challenge import leaderboard, networks, scoring

LINEAR = torch.nn.Linear


def cell(**settings):
    return neuron.LIF(20.0, v_reset=None, decay_input=False, **settings)


def net(*between, last=None):
    torch.manual_seed(0)
    middle = between or (LINEAR(8, 6), cell())
    return nn.Sequential(*middle, LINEAR(6, 2), last or cell())


@pytest.fixture(scope="module")
def samples():
    return challenge.samples(64, seed=5)


def test_samples_are_those_of_the_seed():
    state = torch.get_rng_state()
    x, y = challenge.samples(40, seed=3)
    again, _ = challenge.samples(40, seed=3)
    assert x.shape == (24, 40, 8) and y.bincount().tolist() == [20, 20] and torch.equal(x, again)
    assert not torch.equal(x, challenge.samples(40, seed=4)[0]) and torch.equal(state, torch.get_rng_state())


def test_hidden_samples_depend_on_the_salt_alone():
    one, other = scoring.hidden(), scoring.hidden("a secret")
    assert torch.equal(one[0], scoring.hidden()[0]) and one[0].shape == (24, 2000, 8)
    assert not torch.equal(one[0], other[0]) and not torch.equal(one[0][:, :500], one[0][:, 500:1000])
    assert scoring.mark("a secret") != scoring.mark() and "secret" not in scoring.mark("a secret")


def test_jitter_moves_each_cue_and_leaves_seeds_without_it_alone():
    still, _ = data.xor_in_time(200, 24, delay=8, units=1, rate=1.0, seed=1)
    late, labels = data.xor_in_time(200, 24, delay=8, units=1, rate=1.0, jitter=2, seed=1)
    assert still.sum(0).sum() == late.sum(0).sum() == 200 * 6
    starts = [part.amax(2).argmax(0) for part in (late[:8], late[8:])]
    assert set(starts[0].tolist()) == {0, 1, 2} and set((starts[1] + 8).tolist()) == {11, 12, 13}
    assert (starts[0] != starts[1] - 3).any() and labels.bincount().tolist() == [100, 100]
    assert torch.equal(still, data.xor_in_time(200, 24, delay=8, units=1, rate=1.0, jitter=0, seed=1)[0])


def test_every_spike_of_every_neuron_is_counted(samples):
    x, y = samples
    model = nn.Sequential(LINEAR(8, 6), nn.Recurrent(cell(), 6), LINEAR(6, 2), cell())
    with torch.no_grad():
        next(model[0].parameters()).mul_(4)
        recorded = model.record(x)
    found = challenge.evaluate(model, x, y)
    wanted = recorded.layers[1].sum((0, 2)) + recorded.layers[3].sum((0, 2))
    assert wanted.sum() > 0 and torch.equal(found.counts, wanted)
    assert found.spikes == pytest.approx(wanted.mean().item()) == pytest.approx(sum(found.layers.values()))
    assert torch.equal(found.correct, recorded.out.sum(0).argmax(1) == y)
    assert found.accuracy == pytest.approx(found.correct.float().mean().item())


def test_a_layer_may_serve_twice(samples):
    once = cell()
    model = nn.Sequential(LINEAR(8, 2), once, LINEAR(2, 2), once)
    with torch.no_grad():
        next(model[0].parameters()).mul_(4)
        layers = model.record(samples[0]).layers
    assert torch.equal(challenge.evaluate(model, *samples).counts, layers[1].sum((0, 2)) + layers[3].sum((0, 2)))


class InAList(torch.nn.Module):
    """Its first neurons are in a list, or called in another way than as modules."""

    def __init__(self, call=lambda cells, x: cells[0](x)):
        super().__init__()
        self.first, self.second, self.last = LINEAR(8, 6), LINEAR(6, 2), cell()
        self.cells, self.call = [cell()], call
        with torch.no_grad():
            self.first.weight.mul_(5)

    def forward(self, x):
        return self.last(self.second(self.call(self.cells, self.first(x))[0]))


def of_new_neurons(cells, x):
    return cell()(x)


def of_another_thread(cells, x):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.no_grad()(cells[0]), x).result()


def of_cleared_hooks(cells, x):
    cells[0]._forward_hooks.clear()
    return cells[0](x)


CALLS = [
    lambda cells, x: cells[0](x),
    lambda cells, x: cells[0].forward(x),
    of_new_neurons,
    of_cleared_hooks,
    of_another_thread,
]


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_spikes_are_counted_however_neurons_are_kept_and_called(call, registered, samples):
    model = InAList(call)
    if registered and call is not of_new_neurons:
        model.cells = torch.nn.ModuleList(model.cells)
    hidden = cell()(model.first(samples[0]))[0]
    wanted = hidden.sum((0, 2)) + model.last(model.second(hidden))[0].sum((0, 2))
    found = challenge.evaluate(model, *samples)
    assert hidden.sum() > 0 and torch.equal(found.counts, wanted) and len(found.layers) == 2


def test_compiled_networks_are_counted(samples):
    wanted = challenge.evaluate(lively(), *samples).counts
    compiled = torch.compile(lively(), backend="eager")
    compiled(samples[0])
    assert wanted.sum() > 0 and torch.equal(challenge.evaluate(compiled, *samples).counts, wanted)


def test_the_network_is_left_as_it_was(samples):
    model = nn.Sequential(LINEAR(8, 6), torch.nn.BatchNorm1d(6), cell(), LINEAR(6, 2), cell())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    state = torch.get_rng_state()
    challenge.evaluate(model, *samples)
    assert all(module.training for module in model.modules()) and torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


class OnlySpikes(torch.nn.Module):
    def forward(self, x):
        assert ((x == 0) | (x == 1)).all(), "no spikes"
        return x


class Graded(neuron.Neuron):
    """Hands on how far it is above the threshold."""

    State = neuron.MembraneState

    def step(self, x, state):
        return torch.relu(state.v + x), neuron.MembraneState(state.v + x)


class Stateful(torch.nn.Module):
    """Goes on from the state of the last call."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.state = inner, None

    def forward(self, x):
        state = self.state
        if state is not None and state[1].v.shape[0] != x.shape[1]:
            state = None
        out, self.state = self.inner(x, state)
        return out


class Through(torch.nn.Module):
    """Applies a function to what a network gives, or to what it gets."""

    def __init__(self, inner, after=None, before=None):
        super().__init__()
        self.inner, self.after, self.before = inner, after, before

    def forward(self, x):
        out, _ = self.inner(self.before(x) if self.before else x)
        return self.after(out) if self.after else out


def lively(factor=5):
    model = net()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(factor)
    return model


def by_hand(cells, x):
    state, outs = cells[0].initial_state(x[0]), []
    for x_t in x:
        out, state = cells[0].step(x_t, state)
        outs.append(out)
    return torch.stack(outs), state


def stepped():
    model = InAList(by_hand)
    model.cells = torch.nn.ModuleList(model.cells)
    return model


def with_nan():
    model = net(last=Graded())
    with torch.no_grad():
        next(model[2].parameters()).fill_(float("nan"))
    return model


REFUSED = {
    "no neuron": (lambda: nn.Sequential(LINEAR(8, 2)), "must have neurons"),
    "a readout": (lambda: net(last=neuron.LI()), r"3 \(LI\) must fire spikes, but it hands on its potential"),
    "graded": (lambda: net(LINEAR(8, 6), Graded()), r"1 \(Graded\) must fire spikes, .* not graded"),
    "nan": (with_nan, "x of Graded must be finite"),
    "relu": (lambda: net(LINEAR(8, 6), torch.nn.ReLU(), LINEAR(6, 6), cell()), r"1 \(ReLU\) must be a synapse"),
    "layer norm": (lambda: net(LINEAR(8, 6), torch.nn.LayerNorm(6), cell()), r"1 \(LayerNorm\) must be a synapse"),
    "steps by hand": (stepped, r"cells.0 must be called over time, as .* can't be counted"),
    "a readout in a list": (
        lambda: InAList(lambda cells, x: neuron.LI()(x)),
        r"LI 1, no submodule \(LI\) must fire spikes",
    ),
    "other input": (lambda: nn.Sequential(LINEAR(4, 2), cell()), "must take spikes .* but it raised ValueError"),
    "three classes": (lambda: nn.Sequential(LINEAR(8, 3), cell()), r"\[24, 32, 2\], but it gave \[24, 32, 3\]"),
    "no tensor": (lambda: Through(net(), after=lambda out: "spikes"), "but it gave a str"),
    "inverted": (lambda: Through(lively(), after=lambda out: 1 - out), "output 0 must be what a neuron"),
    "only spikes": (lambda: nn.Sequential(OnlySpikes(), LINEAR(8, 2), cell()), r"0 \(OnlySpikes\).*Error: no spikes"),
    "a leftover state": (lambda: Stateful(lively()), "something is left from one call to the next"),
    "the neighbour's": (lambda: Through(lively(), before=lambda x: x.roll(1, dims=1)), "depend on the others"),
    "changes x": (lambda: Through(net(), before=lambda x: x.mul_(0)), "but it changed x"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, samples):
    make, words = REFUSED[case]
    x, y = samples
    before = x.clone()
    with pytest.raises(challenge.RuleError, match=words):
        challenge.evaluate(make(), x, y)
    assert torch.equal(x, before)


def test_silence_says_zero(samples):
    found = challenge.evaluate(lively(0), *samples)
    assert (found.accuracy, found.spikes) == (0.5, 0.0)
    with pytest.raises(ValueError, match="both of 0 and 1"):
        challenge.evaluate(lively(0), samples[0] / 2, samples[1])


def test_delays_and_other_linear_synapses_may_take_part(samples):
    synapses = challenge.Delays((0, 11)), LINEAR(16, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.5)
    model = nn.Sequential(*synapses, cell(), LINEAR(6, 2), cell())
    assert 0 <= challenge.evaluate(model, *samples).accuracy <= 1


def test_delays_are_what_they_say_in_one_part_or_in_two():
    x = torch.rand(9, 2, 3)
    layer = challenge.Delays((0, 2, 5))
    out, state = torch.compile(layer, fullgraph=True, backend="eager")(x)
    assert out.shape == (9, 2, 9) and torch.equal(out[..., :3], x)
    assert torch.equal(out[2:, :, 3:6], x[:-2]) and out[:2, :, 3:6].sum() == 0 and torch.equal(out[5:, :, 6:], x[:-5])
    a, middle = layer(x[:4])
    b, end = layer(x[4:], middle)
    assert torch.equal(torch.cat([a, b]), out) and torch.equal(end, state)
    assert torch.equal(nn.Sequential(layer)(encode.repeat(x[0], 9))[0], layer(x[:1].expand(9, 2, 3))[0])


def small():
    torch.manual_seed(0)
    return challenge.network(hidden=4)


@pytest.fixture(scope="module")
def thrifty():
    return challenge.reference("thrifty")


def test_the_score_is_that_of_its_parts(thrifty):
    found = challenge.score(thrifty)
    seen = challenge.evaluate(thrifty, *scoring.hidden())
    each = seen.correct.double() - 0.01 * seen.counts
    assert found.samples == 2000 and found.accuracy == seen.accuracy and found.spikes == seen.spikes
    assert found.score == pytest.approx(each.mean().item()) == pytest.approx(seen.accuracy - 0.01 * seen.spikes)
    assert found.error == pytest.approx(each.std().item() / 2000**0.5)
    other = challenge.score(thrifty, salt="another")
    assert other.mark != found.mark and other.score != found.score


def test_references_keep_their_promises():
    scores = {name: challenge.reference_score(name) for name in networks.NOTES}
    assert scores["plain"].score < 0.5 < scores["thrifty"].score < scores["two neurons"].score < scores["delays"].score
    assert scores["two neurons"].spikes == pytest.approx(0.75, abs=0.01) and scores["two neurons"].accuracy > 0.995
    assert scores["delays"].spikes == pytest.approx(0.5, abs=0.01) and scores["delays"].accuracy > 0.995


def test_training_learns_and_a_penalty_saves_spikes():
    x, y = challenge.samples(500, seed=99)
    nets = []
    for penalty in (0.0, 0.01):
        torch.manual_seed(0)
        nets.append(challenge.train(challenge.network(16), penalty, updates=120))
    plain, saving = (challenge.evaluate(net, x, y) for net in nets)
    assert plain.accuracy > 0.9 and saving.spikes < 0.5 * plain.spikes


def test_training_repeats():
    def weights():
        torch.manual_seed(3)
        return challenge.train(challenge.network(4), 0.01, updates=5, seed=1).state_dict()

    one, other = weights(), weights()
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_penalty_may_be_a_function_of_the_update():
    def weights(penalty):
        torch.manual_seed(3)
        return challenge.train(challenge.network(8), penalty, updates=6, warm_up=0.5).state_dict()

    free, wanted, asked = weights(0.0), weights(0.3), []
    found = weights(lambda *now: asked.append(now) or 0.3 * min(1.0, now[0] / 3))
    assert asked == [(update, 6) for update in range(6)]
    assert all(torch.equal(value, wanted[name]) for name, value in found.items())
    assert not torch.equal(free["0.weight"], wanted["0.weight"])


def test_entries_come_back_best_first(tmp_path, thrifty):
    folder = tmp_path / "board"
    empty = challenge.board(folder, references=False)
    assert empty.entries == () and "; no entry yet" in repr(empty)
    entry = challenge.submit("Ada", thrifty, folder, note="sixteen")
    assert "; 1 entry by 1 person\n" in repr(challenge.board(folder))
    worse = challenge.submit("ada", small(), folder)
    challenge.submit("Bob", small(), folder)
    board = challenge.board(folder, references=False)
    assert "; 3 entries by 2 people\n" in repr(board)
    assert board.entries[0] == entry and {e.name for e in board.entries} == {"Ada", "ada", "Bob"} and not board.refused
    assert [e.name for e in board.best()] == ["Ada", "Bob"] and worse in board.entries
    assert entry.neurons == "LIF, LIF" and entry.parameters == 178
    assert [row[0] for row in board.rows()] == ["1.", "2."]
    with_references = challenge.board(folder)
    assert [row[0] for row in with_references.rows()].count("") == len(networks.SHOWN)
    assert "sixteen" in repr(with_references) and "sixteen" in with_references._repr_html_()
    assert not list(folder.glob("*.part"))


ENTRY = {
    "kind": leaderboard.KIND, "format": leaderboard.FORMAT, "price": challenge.PRICE, "name": "Ada", "note": "",
    "when": "2026-01-01T00:00:00+00:00", "score": 0.89, "error": 0.01, "accuracy": 0.9, "spikes": 1.0,
    "samples": 2000, "mark": scoring.mark(), "neurons": "LIF", "parameters": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"kind": "snnkit challenge entry", "for', "only a part"),
        ("[]", "no entry of the challenge"),
        (" " * 100_000, "too large"),
        ({"format": 0}, "of another version"),
        ({"mark": "abcdef"}, "scored on other samples"),
        ({"name": 3}, "damaged: name must be a text"),
        ({"score": 0.999}, "not that of its accuracy"),
        ({"accuracy": 5.0, "score": 4.99}, "not that of its accuracy"),
        ({"accuracy": 10**400}, "damaged"),
        ({"spikes": -1000.0, "score": 10.9}, "damaged: spikes must be at least 0"),
        ({"error": float("nan")}, "damaged: error must be finite"),
    ],
)
def test_what_is_no_entry_is_listed_and_left_alone(tmp_path, content, why):
    (tmp_path / "good.json").write_text(json.dumps(ENTRY))
    text = content if isinstance(content, str) else json.dumps(ENTRY | content)
    (tmp_path / "bad.json").write_text(text)
    board = challenge.board(tmp_path, references=False)
    assert [entry.name for entry in board.entries] == ["Ada"]
    ((file, said),) = board.refused
    assert file == "bad.json" and why in said and (tmp_path / "bad.json").read_text() == text
    assert "bad.json" in repr(board) and "bad.json" in board._repr_html_()
    with pytest.raises(ValueError, match="folder must be a folder"):
        challenge.board(tmp_path / "good.json")


def test_many_may_hand_in_at_once(tmp_path):
    threads = [threading.Thread(target=challenge.submit, args=("same name", small(), tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(challenge.board(tmp_path, references=False).entries) == 4


def test_evaluations_at_once_leave_compiling_as_it_was():
    import torch._dynamo  # an evaluation switches compiling off only where it is there

    graphs, net = [], small()
    torch.compiler.reset()
    with ThreadPoolExecutor(4) as pool:
        spikes = pool.map(lambda _: challenge.evaluate(net, *challenge.samples(50, 0)).spikes, range(8))
        assert len(set(spikes)) == 1

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(2))
    assert graphs


@pytest.mark.parametrize("name", ["🦊 عربي", "<b>Ada</b> & ../x"])
def test_names_as_people_have_them(tmp_path, name):
    assert challenge.submit(name, small(), tmp_path).name == name
    board = challenge.board(tmp_path, references=False)
    assert board.entries[0].name == name and "<b>Ada" not in board._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "x" * 41}, ValueError),
        ({"name": "a\u202eb"}, ValueError),
        ({"net": nn.Sequential(torch.nn.Linear(8, 2), neuron.LI())}, challenge.RuleError),
    ],
)
def test_nothing_is_written_for_what_is_refused(arguments, error, tmp_path):
    with pytest.raises(error):
        challenge.submit(**({"name": "Ada", "net": small(), "folder": tmp_path} | arguments))
    assert not list(tmp_path.iterdir())


def test_the_recorded_sweep_says_where_it_comes_from():
    columns, origin = challenge.recorded_sweep()
    assert set(columns) == {"RATE_PENALTY", "HIDDEN", "SEED", "accuracy", "spikes", "seconds"}
    assert {len(values) for values in columns.values()} == {origin["runs"]} == {96}
    assert origin["machine"]["processor"] and origin["machine"]["packages"]["torch"] and origin["machine"]["date"]
