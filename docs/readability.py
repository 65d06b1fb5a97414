"""``python docs/readability.py [FILE]...``: how long the sentences of the prose are, one line a file; it never fails.

Of each file: its words, the mean words in a sentence, the share of sentences over 25 words, and the longest three with
their lines. Prose is what Markdown has beside code, tables, formulas, HTML, pictures and headings; of a notebook's
source, its Markdown cells. A `name` or a $formula$ within a sentence is one word, and each point of a list is a text.
Readers who learn in English as their second language do best with 12 to 16 words in a sentence, on average.
"""

import itertools
import re
import sys
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "notebooks/src/[0-9]*.py", "workshop/**/*.md", "docs/*.md")
LONG = 25
LEAST = 3  # words of a sentence: shorter ones are labels
SKIPPED = (
    r"\A---\n.*?^---$",  # settings of a page
    r"^ *(```|~~~).*?^ *\1",
    r"\$\$.*?\$\$",
    r"<!--.*?-->|<[/a-zA-Z][^>]*>",
    r"^ *(?:\||#+ ).*?$",  # rows of tables, and headings
    r"!\[[^\]]*\]\([^)]*\)",
)
ONE_WORD = (r"(`+)[^`].*?\1", r"\$[^$\n]+(?:\n[^$\n]+)?\$", r"https?://[^\s)>]+")
ABBREVIATED = r"(?<!e\.g\.)(?<!i\.e\.)(?<!et al\.)(?<!cf\.)(?<!vs\.)(?<!Fig\.)(?<!Eq\.)(?<!No\.)"
END = re.compile(rf"(?<=[.!?…])[\"')\]*_]*{ABBREVIATED}\s+(?=[\"'(\[*_]*[A-Z0-9α-ω])")
PARAGRAPH = re.compile(r"\n\s*(?:\n|[-*+] |\d+\. |> )")
WORD = re.compile(r"\w+(?:[-'’.,/]\w+)*")


def markdown_cells(source: str) -> str:
    """The Markdown cells of a notebook's source, in the lines where they are."""
    lines, shown = [], False
    for line in source.splitlines():
        if line.startswith("# %%"):
            shown, line = line.startswith("# %% [markdown]"), ""
        lines.append(line[2:] if shown and line.startswith("# ") else "")
    return "\n".join(lines)


def sentences(markdown: str) -> list[tuple[int, int]]:
    """Of each sentence of the prose: its line, and its number of words."""
    text = markdown
    for pattern in SKIPPED:
        text = re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.DOTALL | re.MULTILINE)
    for pattern in ONE_WORD:
        text = re.sub(pattern, lambda match: "X" + "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    cuts = sorted({0, len(text)} | {match.end() for pattern in (END, PARAGRAPH) for match in pattern.finditer(text)})
    found = []
    for start, end in itertools.pairwise(cuts):
        if words := list(WORD.finditer(text, start, end)):
            found.append((text.count("\n", 0, words[0].start()) + 1, len(words)))
    return found


def report(paths: list[Path]) -> list[str]:
    rows = []
    for path in paths:
        text = path.read_text("utf-8")
        found = sentences(markdown_cells(text) if path.suffix == ".py" else text)
        lengths = [words for _, words in found if words >= LEAST] or [0]
        longest = ", ".join(f"{words} (line {line})" for line, words in sorted(found, key=lambda one: -one[1])[:3])
        share = sum(words > LONG for words in lengths) / len(lengths)
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        rows.append((mean(lengths), f"{share:9.0%}  {sum(words for _, words in found):6}  {name}: {longest}"))
    rows.sort(key=lambda row: -row[0])
    return [f"a sentence  over {LONG}   words", *(f"{average:10.1f} {rest}" for average, rest in rows)]


if __name__ == "__main__":
    given = [Path(name).resolve() for name in sys.argv[1:]]
    print("\n".join(report(given or sorted(path for pattern in PAGES for path in ROOT.glob(pattern)))))
