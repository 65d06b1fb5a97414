"""Answers to the exercises of event_driven_layers."""

import torch

from snnkit.lab.exercises.event_driven_layers import as_list

# Exercise 1


def adder(column=lambda weight, i: weight[:, i], each=lambda places: places, cost=lambda weight, places: len(weight)):
    """An answer to exercise 1 with one of its parts exchanged."""

    def answer(places, weight):
        out, additions = torch.zeros(len(places), len(weight)), 0
        for b, columns in enumerate(places):
            for i in each(columns):
                out[b] += column(weight, i)
                additions += cost(weight, places)
        return out, additions

    return answer


def overwriting(places, weight):
    out = torch.zeros(len(places), len(weight))
    for b, columns in enumerate(places):
        for i in columns:
            out[b] = weight[:, i]
    return out, sum(map(len, places)) * len(weight)


def of_zeros_and_ones(places, weight):
    spikes = torch.zeros(len(places), weight.shape[1])
    for b, columns in enumerate(places):
        for i in columns:
            spikes[b, i] += 1
    return spikes @ weight.t(), spikes.count_nonzero() * len(weight)


def dense_and_its_count(places, weight):
    return of_zeros_and_ones(places, weight)[0], len(places) * weight.numel()


def by_index_add(places, weight):
    rows = [b for b, columns in enumerate(places) for _ in columns]
    every = torch.tensor([i for columns in places for i in columns], dtype=torch.long)
    out = torch.zeros(len(places), len(weight)).index_add(0, torch.tensor(rows, dtype=torch.long), weight.t()[every])
    return out, len(rows) * len(weight)


PRODUCTS = [
    (lambda places, weight: (torch.zeros(len(weight), len(places)), 0), "the product", 0, "the other way round"),
    (adder(column=lambda weight, i: weight.flatten()[i * 3 : i * 3 + 3]), "the product", 1, "a row of the memory"),
    (adder(column=lambda weight, i: weight[:, 0]), "the product", 1, "always the same"),
    (adder(column=lambda weight, i: weight[i]), "the product", 1, "a row"),
    (overwriting, "the product", 2),
    (adder(each=set), "twice", 2),
    (adder(cost=lambda weight, places: 1), "only where there is a spike", 3),
    (adder(cost=lambda weight, places: weight.shape[1]), "only where there is a spike", 3),
    (dense_and_its_count, "only where there is a spike", 4),
]


# Exercise 2


def lister(places=lambda rows: rows.nonzero()[:, 1], starts=lambda rows: as_list(rows[None])[0]):
    """An answer to exercise 2 with one of its parts exchanged."""

    def answer(spikes):
        rows = spikes.flatten(0, 1)
        return starts(rows), places(rows)

    return answer


def with_loops(spikes):
    starts, places = [0], []
    for step in spikes:
        for row in step:
            places += [i for i, one in enumerate(row) if one]
            starts.append(len(places))
    return torch.tensor(starts), torch.tensor(places, dtype=torch.long)


def by_bincount(spikes):
    row, place = spikes.flatten(0, 1).nonzero(as_tuple=True)
    counts = torch.bincount(row, minlength=spikes.shape[0] * spikes.shape[1])
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0)), place


LISTS = [
    (lambda spikes: spikes, "the places", 0),
    (lambda spikes: (as_list(spikes)[0].float(), as_list(spikes)[1]), "the places", 0, "floats"),
    (lambda spikes: as_list(spikes)[::-1], "the places", 1, "swapped"),
    (lister(places=lambda rows: rows.flatten().nonzero()[:, 0]), "the places", 1, "places in the whole tensor"),
    (lister(places=lambda rows: rows.nonzero()[:, 0]), "the places", 1, "the rows"),
    (lister(starts=lambda rows: rows.nonzero()[:, 0]), "the starts", 2, "a row for each event"),
    (lister(starts=lambda rows: rows.count_nonzero(1).cumsum(0)), "the starts", 3, "the ends"),
    (lister(starts=lambda rows: as_list(rows[None])[0][:-1]), "the starts", 3, "without the last end"),
    (
        lister(starts=lambda rows: torch.nn.functional.pad(rows.count_nonzero(1), (1, 0))),
        "the starts",
        4,
        "counts that are not added up",
    ),
]


WRONG = {1: PRODUCTS, 2: LISTS}
RIGHT = {1: [of_zeros_and_ones, by_index_add], 2: [with_loops, by_bincount]}
STUBS = {
    1: [lambda places, weight: (torch.zeros(len(places), len(weight)), ...)],
    2: [lambda spikes: (..., ...)],
}
