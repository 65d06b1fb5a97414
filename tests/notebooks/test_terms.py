"""A term is explained where a reader first meets it: there it stands in italics.

Readers come to the tracks Machines and Research after notebooks 00 to 04.
"""

from __future__ import annotations

import re

import pytest

from snnkit.lab.course import order
from snnkit.lab.tools import pair
from snnkit.lab.tools.project import find
from snnkit.lab.workshop.minutes import NO_PROSE

PROJECT = find()
#: Terms, and what else counts as the term; "" is the term with or without an s.
TERMS = {
    **{"membrane": "", "threshold": "", "reset": "", "time constant": "", "decay": "decay(?:s|ing)?", "raster": ""},
    **{"rate code": "rate cod(?:e|es|ing)", "latency code": "latency cod(?:e|es|ing)", "direct coding": ""},
    **{
        "surrogate gradient": "",
        "half-width": "",
        "detach": "detach(?:es|ed|ing)?",
        "logits": "logits?",
        "nats": "nats?",
    },
    **{"cross-entropy": "", "softmax": "", "batch": "batch(?:es)?", "epoch": "", "learning rate": "", "optimizer": ""},
    **{"backpropagation through time": "", "elementwise": "", "broadcasting": "broadcast(?:s|ed|ing)?", "stride": ""},
    **{
        "kernel": "(?<!the )(?<!The )kernels?",
        "launch": "launch(?:es|ed|ing)?",
        "tile": "",
        "Inductor": "",
        "Triton": "",
        "register": "registers?(?! it)",
    },
    **{"bandwidth": "", "roofline": "", "fused": "fus(?:es?|ed|ing|ion)", "feed-forward": "", "recurrent": ""},
    **{
        "quantised": "quantis(?:es?|ed|ing|ation)",
        "convolution": "convolution(?:s|al)?",
        "channel": "(?<!ion )channels?",
        "pooling": "",
    },
    **{"batch norm": "batch norm(?:alisation)?s?", "mixed precision": "", "bfloat16": "", "loss scaling": ""},
    **{
        "gradient accumulation": "gradient accumulation|accumulat(?:es?|ed|ing) (?:the )?gradients",
        "checkpoint": "checkpoint(?:s|ing)?",
    },
    **{
        "truncated": "truncat(?:es?|ed|ing|ion)",
        "rank": "",
        "all-reduce": "",
        "batch script": "",
        "eligibility": "eligibility",
    },
    **{"STDP": "", "homeostasis": "homeosta(?:sis|tic)", "lateral inhibition": "", "event camera": "", "polarity": ""},
    **{"receptive field": "", "population code": "population cod(?:e|es|ing)", "Pareto front": "", "sweep": ""},
    **{"standard error": "", "manifest": "", "rheobase": "", "f–I curve": "", "soft reset": "", "refractory": ""},
    **{"adaptation": "", "regression": ""},
}
_EMPHASISED = re.compile(r"(?<![*\w])\*{1,3}([^*]+)\*{1,3}")
_CODE = re.compile(r"`[^`]*`")


def reading(track: str) -> list[str]:
    """The notebooks that a reader of a track has met, in order."""
    names = [name for name in PROJECT.names() if name[3:] in order.NUMBERS]
    first = [name for name in names if name < "05"]
    return [*first, *(name for name in names if order.track_of(name[3:]) == track and name not in first)]


def paragraphs(name: str) -> list[str]:
    """The prose of a notebook, without titles, goals, headings, references and the way on."""
    found = []
    cells = [cell for cell in pair.notebook(PROJECT, name).cells if cell.cell_type == "markdown"]
    for cell in cells:
        if "badge" in cell.metadata.get("tags", []) or re.match(r"# ", cell.source):
            continue
        text = re.split(r"(?m)^## (?:Where next|Next|References|Sources)\b", cell.source)[0]
        blocks = re.split(r"\n\s*\n|\n(?=\|)", _CODE.sub(" ", NO_PROSE.sub(" ", text)))  # a row of a table is one
        found += [block for block in blocks if not re.match(r"\s*#", block)]
    return found


def unexplained(term: str, track: str) -> str | None:
    """Where a term is first used without an explanation; None if it is explained, or never used."""
    word = rf"(?<![\w-])(?:{TERMS[term] or re.escape(term) + 's?'})(?![\w-])"
    flags = 0 if term[0].isupper() or term == "f–I curve" else re.IGNORECASE
    for name in reading(track):
        for block in paragraphs(name):
            if re.search(word, block, flags):
                explained = any(re.search(word, said, flags) for said in _EMPHASISED.findall(block))
                return None if explained else f"{name}: {' '.join(block.split())[:160]}"
    return None


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_explained_where_it_is_first_used(term):
    found = {track: unexplained(term, track) for track in order.TRACKS}
    assert {track: where for track, where in found.items() if where} == {}


def test_the_list_can_fail():
    assert len(TERMS) >= 60
    assert [unexplained(term, "spikes") for term in ("membrane",)] == [None]
    assert paragraphs("01_first_spiking_neuron")
