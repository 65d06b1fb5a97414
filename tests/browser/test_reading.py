"""Everybody can read a notebook: at 200 % nothing is cut off, and pictures say what they show."""

from __future__ import annotations

import pytest

from .conftest import shoot
from .test_lab import NOTEBOOKS

pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'")

each_notebook = pytest.mark.parametrize("name", NOTEBOOKS)

# Text, pictures and controls of a cell that stick out of what clips them, or out of the page. What lies in an area that
# scrolls is fine, as long as the area is not cut off itself. MathJax hides a copy of each formula for screen readers.
CUT = """cell => {
    const page = cell.closest('.jp-WindowedPanel-outer').getBoundingClientRect();
    const cut = [], UNSEEN = 'mjx-assistive-mml, .snnkit-alt, .jp-InputArea, .jp-Collapser';
    const check = (start, box, what) => {
        if (!box.width || !box.height || start.closest(UNSEEN)) return;
        for (let up = start; up !== cell; up = up.parentElement) {
            const style = getComputedStyle(up), own = up.getBoundingClientRect();
            if (style.visibility === 'hidden' || style.opacity === '0') return;
            if (/auto|scroll/.test(style.overflowX)) box = own;
            else if (/hidden|clip/.test(style.overflowX) && (box.left < own.left - 1 || box.right > own.right + 1))
                return cut.push(`${what} in ${up.tagName} ${up.getAttribute('class')}`);
        }
        if (box.left < page.left - 1 || box.right > page.right + 1) cut.push(`${what} on the page`);
    };
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode, range = document.createRange();
        range.selectNodeContents(node);
        if (node.data.trim()) check(node.parentElement, range.getBoundingClientRect(), node.data.trim().slice(0, 60));
    }
    for (const one of cell.querySelectorAll('img, canvas, input, button, select, .noUi-target'))
        check(one.parentElement, one.getBoundingClientRect(), one.outerHTML.slice(0, 60));
    return cut;
}"""
# Pictures without words: neither an alt, nor a text beside them for screen readers (JupyterLab's plots have no alt).
NAMELESS = """cell => {
    const words = text => text.trim().length > 20;
    const all = [...cell.querySelectorAll('.jp-Cell-outputArea :is(.js-plotly-plot, img)')];
    const pictures = all.filter(one => !one.parentElement.closest('.js-plotly-plot') && !words(one.alt || ''));
    const spoken = [...cell.querySelectorAll('.jp-Cell-outputArea .snnkit-alt')].filter(one => words(one.textContent));
    return pictures.slice(spoken.length).map(one => one.outerHTML.slice(0, 100));
}"""


@each_notebook
def test_nothing_is_cut_off_at_200_percent(notebook, name):
    normal = notebook.page.viewport_size
    # Twice as large on the same screen is a page of half the size.
    notebook.page.set_viewport_size({side: pixels // 2 for side, pixels in normal.items()})
    notebook.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    try:
        cut = {index: found for index, cell in notebook.cells() if (found := cell.evaluate(CUT))}
        shoot(notebook.page, f"{name[:2]}-200-percent")
    finally:
        notebook.page.set_viewport_size(normal)
    assert cut == {}


@each_notebook
def test_every_picture_has_a_description(notebook):
    assert {index: found for index, cell in notebook.cells() if (found := cell.evaluate(NAMELESS))} == {}
