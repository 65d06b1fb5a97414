"""Predictions, outcomes and the quiz in a browser: as a file without a kernel, and in JupyterLab with one."""

from __future__ import annotations

import re

import pytest

from snnkit.lab.course import card as cards, gate, order, predictions, progress, question
from snnkit.lab.tools.project import find
from tests.course.test_predictions import TEXT

from .conftest import shoot

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect
READ = question.parse(TEXT, "trial")
TRUTH = {"trial.a": 1, "trial.b": 2.72, "trial.c": [[0.0, 0.6, 1.5], [1.0, 0.0, 1.8]]}
# trial.a has its answer in the file, trial.b here only from its outcome, trial.c always.
QUESTIONS = [one | ({"answer": None} if key == "trial.b" else {}) for key, one in READ["predictions"].items()]


@pytest.fixture
def shown(page, tmp_path):
    """All cards on one narrow page, without a kernel."""
    pieces = [cards.page("outcomePage", {"question": QUESTIONS[1], "truth": 9.9, "record": RECORD, "line": None}, "")]
    for one in QUESTIONS:
        data = {"line": None, "question": one, "record": None}
        pieces.append(cards.page("predictPage", data, ""))
        pieces.append(cards.page("outcomePage", data | {"truth": TRUTH[one["key"]]}, ""))
    pieces.append(cards.page("quizPage", {"line": None, "notebook": "trial", "questions": READ["quiz"]}, ""))
    file = tmp_path / "cards.html"
    file.write_text(f"<!DOCTYPE html><meta charset='utf-8'><link rel='icon' href='data:,'>{''.join(pieces)}")
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(file.as_uri())
    yield page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


RECORD = {"guess": 9.0, "sure": 50, "right": None, "when": ""}


def lock(card, sure=90):
    card.get_by_role("radio", name=f"{sure} % sure").check()
    card.get_by_role("button", name="Lock").click()


def test_a_choice_locks_once_and_opens_why_and_outcome(shown):
    card, outcome = shown.locator(".predict").nth(0), shown.locator(".outcome").nth(1)
    expect(outcome).to_contain_text("Lock or skip your prediction above first")
    card.get_by_role("button", name="Lock").click()
    expect(card.get_by_role("status")).to_have_text("Choose an answer first.")
    card.get_by_role("radio", name="creeps").check()
    card.get_by_role("button", name="Lock").click()
    expect(card.get_by_role("status")).to_contain_text("How sure are you?")
    lock(card)
    expect(card.locator("li.guess")).to_contain_text("your guess")
    expect(card.locator("li.result, .why")).to_have_count(0)
    expect(card).to_contain_text("the result comes below")
    expect(outcome.locator("li.guess")).to_contain_text("creeps")
    expect(outcome.locator(".head")).to_have_text("Outcome")  # the question is above
    expect(outcome.locator("li.result")).to_contain_text("jumps <b>")
    expect(outcome).to_contain_text("Not this time. You were 90 % sure.")
    expect(outcome).to_contain_text('It "jumps".')
    card.get_by_role("button", name="Locked, 90 % sure").click()
    expect(card.get_by_role("status")).to_contain_text("is closed: your first answer counts")
    shown.reload()  # no kernel: the browser remembers
    expect(shown.locator(".predict").nth(0)).to_contain_text("Locked, 90 % sure")
    expect(shown.locator(".outcome").nth(1)).to_contain_text("Not this time")


def test_skipping_shows_the_result_and_why_without_a_guess(shown):
    card, outcome = shown.locator(".predict").nth(0), shown.locator(".outcome").nth(1)
    expect(outcome).not_to_contain_text("jumps <b>")
    card.get_by_role("button", name="Skip prediction trial.a").press("Enter")
    expect(card.get_by_role("button", name="Skipped")).to_be_focused()
    expect(card.get_by_role("radio")).to_have_count(0)
    expect(outcome).to_contain_text('Result: jumps <b>It "jumps".')
    expect(outcome).not_to_contain_text("sure")
    shown.locator(".outcome").nth(2).get_by_role("button", name="Skip").click()  # of the number, from its outcome
    expect(shown.locator(".predict").nth(1)).to_contain_text("Skipped")
    expect(shown.locator(".outcome").nth(2)).to_contain_text("Result: 2.72 times")
    shown.reload()
    expect(shown.locator(".predict").nth(0)).to_contain_text("Skipped")


def test_a_run_that_nobody_watches_shows_results_and_leaves_guessing_to_readers(page):
    data = {"line": None, "question": QUESTIONS[0], "record": None}
    asked = cards.page("predictPage", data, "")
    page.set_content(asked + cards.page("outcomePage", data | {"truth": 1, "open": True}, ""))
    expect(page.locator(".outcome")).to_contain_text('Result: jumps <b>It "jumps".')
    page.get_by_role("radio", name="jumps <b>").check()
    lock(page.locator(".predict"))
    expect(page.locator(".outcome")).to_contain_text("Right. You were 90 % sure.")


# Rules of JupyterLab and MathJax, and what they make of a line of text and of a formula.
JUPYTERLAB = """<style>
.jp-OutputArea-output pre { word-break: break-all; overflow-wrap: break-word; white-space: pre-wrap }
.jp-RenderedMarkdown { overflow: auto; width: 200px }
mjx-container { display: inline-block; position: relative; margin-left: 180px; white-space: nowrap }
mjx-assistive-mml { position: absolute !important; left: 0; width: auto !important; overflow: hidden !important }
</style><div class="jp-OutputArea"><div class="jp-OutputArea-output"><pre>long lines</pre></div></div>
<div class="jp-RenderedMarkdown"><mjx-container>x<mjx-assistive-mml>a copy</mjx-assistive-mml></mjx-container></div>
<div class="jp-OutputArea-output jupyter-widgets">Error displaying widget: model not found</div>
"""


def test_cards_mend_what_jupyterlab_does_to_long_lines_formulas_and_widgets_of_the_past(page):
    wide = "() => [...document.querySelectorAll('.jp-RenderedMarkdown')].some(one => one.scrollWidth > one.clientWidth)"
    page.set_content(JUPYTERLAB)
    expect(page.locator("pre")).to_have_css("word-break", "break-all")
    assert page.evaluate(wide)
    asked = cards.page("predictPage", {"line": None, "question": QUESTIONS[0], "record": None}, "")
    page.set_content(JUPYTERLAB + asked)
    expect(page.locator("pre")).to_have_css("word-break", "normal")
    assert not page.evaluate(wide)
    lost = page.locator(".jupyter-widgets")
    expect(lost).to_have_css("font-size", "0px")
    assert "Run this cell again" in lost.evaluate("one => getComputedStyle(one, '::before').content")


THEMES = ("pydata_sphinx_theme/styles/pydata-sphinx-theme.css", "sphinx_book_theme/styles/sphinx-book-theme.css")
# Texts that stand out less than 4 : 1 from what is behind them.
PALE = """() => {
    const parts = colour => (colour.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    const linear = v => v <= 10 ? v / 3294 : ((v / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const over = ([r, g, b, a = 1], below) => [r, g, b].map((v, i) => a * v + (1 - a) * below[i]);
    const style = one => getComputedStyle(one);
    const behind = one => one ? over(parts(style(one).backgroundColor), behind(one.parentElement)) : [255, 255, 255];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
        const one = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
        if (!text || !one.closest('.course') || one.closest('svg, script, style') || !one.checkVisibility()) continue;
        const below = behind(one), ink = over(parts(style(one).color), below);
        const [low, high] = [light(below), light(ink)].sort((a, b) => a - b);
        if ((high + 0.05) / (low + 0.05) < 4) found.push([text, ink, below]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cards_are_readable_on_a_page_of_the_site(shown, scheme):
    """Whose theme has cards of its own."""
    for sheet in THEMES:
        package, path = sheet.split("/", 1)
        folder = pytest.importorskip(package, reason="pip install -e '.[site]'").__path__[0]
        shown.add_style_tag(path=f"{folder}/theme/{package}/static/{path}")
    shown.evaluate("scheme => { document.documentElement.dataset.theme = scheme; }", scheme)
    for card in shown.locator(".predict").all()[:2]:
        card.get_by_role("radio").first.check() if card.locator(".choice").count() else card.get_by_role(
            "textbox"
        ).fill("2")
        lock(card)
    expect(shown.locator(".outcome").nth(1)).to_contain_text("Not this time")
    assert shown.locator(".course .head").count() > 4
    assert shown.evaluate(PALE) == []


# One of each scale and unit of the course.
NUMBER_LINES = {
    (one["low"], one["high"], one["unit"]): one
    for notebook in order.NOTEBOOKS
    for one in question.read(notebook)["predictions"].values()
    if one["kind"] == "number"
}
CUT = """() => [...document.querySelectorAll('.number-line svg')].flatMap(svg => [...svg.querySelectorAll('text')]
    .filter(text => { const {x, width} = text.getBBox(); return x < 0 || x + width > svg.clientWidth; })
    .map(text => text.textContent))"""


@pytest.mark.parametrize("width", [360, 1280])
def test_no_text_of_a_number_line_is_cut(page, tmp_path, width):
    pieces = []
    for (low, high, _), one in NUMBER_LINES.items():
        for guess, truth in ((low, high), ((3 * low + high) / 4, (low + 3 * high) / 4)):
            data = {"line": None, "question": one, "truth": truth, "record": RECORD | {"guess": guess}}
            pieces.append(cards.page("outcomePage", data, ""))
    file = tmp_path / "lines.html"
    file.write_text(f"<!DOCTYPE html><meta charset='utf-8'><link rel='icon' href='data:,'>{''.join(pieces)}")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(file.as_uri())
    expect(page.locator(".number-line svg")).to_have_count(len(pieces))
    page.wait_for_timeout(200)  # lines are drawn again once their width is known
    assert page.evaluate(CUT) == []


def test_a_number_is_read_and_laid_on_a_line_with_the_result(shown):
    card, outcome = shown.locator(".predict").nth(1), shown.locator(".outcome").nth(2)
    for text, line in (("", "Enter a number first"), ("1,5", "point for the comma: 1.5"), ("2 x", "number alone")):
        card.get_by_role("textbox").fill(text)
        lock(card)
        expect(card.get_by_role("status")).to_contain_text(line)
    card.get_by_role("textbox").fill("2")
    lock(card)
    expect(card).to_contain_text("the result comes below")
    expect(outcome).to_contain_text(re.compile("You said 2, it is 2.72 times: 26 % too low. Right is within 20 %"))
    expect(outcome.locator("svg")).to_contain_text("result: 2.72 times")
    expect(shown.locator(".outcome").nth(0)).to_contain_text("Right.")  # of a kernel's record


def test_a_sketch_by_mouse_and_one_by_keyboard(shown):
    card, outcome = shown.locator(".predict").nth(2), shown.locator(".outcome").nth(3)
    expect(outcome.locator("svg")).to_have_count(0)
    field, mouse = card.get_by_role("slider"), shown.mouse
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    mouse.down()
    mouse.move(box["x"] + box["width"] + 50, box["y"] - 40, steps=8)  # outside: stays at the edge of the axes
    mouse.up()
    lock(card)
    expect(card.get_by_role("status")).to_contain_text("from the left edge to the right")
    card.get_by_role("button", name="Clear").click()
    field.focus()
    for key in ("Home", *["ArrowDown"] * 2, "End", *["ArrowUp"] * 9, "ArrowLeft"):
        shown.keyboard.press(key)
    expect(field).to_have_attribute("aria-valuetext", re.compile(r"^w 1\.43: loss 1\.\d+$"))
    lock(card)
    expect(outcome).to_contain_text(re.compile(r"On average your curve is 0\.\d+ from the result \(loss\)"))
    assert outcome.locator("path.guess, path.result").count() == 2


def test_the_quiz_replies_gives_a_second_try_and_then_the_solution(shown):
    quiz = shown.locator(".quiz")
    check, replies = quiz.get_by_role("button", name="Check"), quiz.get_by_role("status")
    check.click()
    expect(replies).to_contain_text("Choose an answer first")
    quiz.get_by_role("radio", name="once").focus()
    shown.keyboard.press("Space")
    check.press("Enter")
    expect(replies).to_contain_text("Not quite. Think of the leak.")
    expect(quiz.get_by_role("radio", name="once")).to_be_disabled()
    expect(replies).not_to_contain_text("Below the threshold")
    quiz.get_by_role("radio", name="twice").check()
    check.click()
    expect(replies).to_contain_text("Solution: never")
    expect(replies).to_contain_text("Below the threshold")
    expect(check).to_have_count(0)


def test_names_for_screen_readers_and_no_script_words(shown):
    for role in ("radio", "button", "textbox", "slider", "group", "radiogroup"):
        for control in shown.get_by_role(role).all():
            expect(control).to_have_accessible_name(re.compile(r"\S"))
    text = cards.page("predictPage", {"line": None, "question": QUESTIONS[0], "record": None}, "Write your guess down.")
    context = shown.context.browser.new_context(java_script_enabled=False)
    still = context.new_page()
    still.set_content(text)
    expect(still.locator("body")).to_contain_text("Write your guess down.")
    context.close()


GATED = """
<div class="jp-OutputArea"><div class="jp-OutputArea-child">{}</div>
<div class="jp-OutputArea-child" id="figure" style="display: flex; overflow: hidden">
  <div style="flex: 1 1"><button style="height: 99px">Play</button></div></div>
<div class="jp-OutputArea-child"><pre>It is 2.72.</pre></div></div>
"""


def gate_of(*keys):
    return cards.page("gatePage", {"keys": {key: key for key in keys}, "line": None}, gate._closed(), plain=True)


def test_a_gate_hides_what_is_below_it_and_keeps_its_width(page):
    predict = cards.page("predictPage", {"line": None, "question": QUESTIONS[1], "record": None}, "")
    page.set_content(predict + GATED.format(gate_of("trial.a", "trial.b")))
    number, words, play = (
        page.get_by_text("It is 2.72."),
        page.locator(".snn-gate"),
        page.get_by_role("button", name="Play"),
    )
    expect(words).to_contain_text("Hidden until you lock or skip predictions trial.a and trial.b above.")
    expect(number).to_be_hidden()
    expect(play).to_have_count(0)  # nor is it there for screen readers
    size = "figure => [figure.clientHeight, figure.firstElementChild.clientWidth]"
    height, width = page.locator("#figure").evaluate(size)
    page.locator(".predict").get_by_role("textbox").fill("2")
    lock(page.locator(".predict"))
    expect(words).to_contain_text("prediction trial.a above")
    expect(number).to_be_hidden()
    words.get_by_role("button", name="Skip prediction trial.a, and show what is hidden").press("Enter")
    expect(number).to_be_visible()
    expect(words).to_be_hidden()
    assert height == 0 and page.locator("#figure").evaluate(size) == [99, width]
    page.keyboard.press("Tab")
    expect(play).to_be_focused()  # what was hidden comes next


def test_where_nothing_follows_a_cell_fails_or_no_script_runs_a_gate_is_not_seen(browser, page):
    page.set_content(f'<div class="jp-OutputArea"><div class="jp-OutputArea-child">{gate_of("trial.a")}</div></div>')
    expect(page.locator(".snn-gate")).to_be_hidden()
    page.set_content(GATED.format(gate_of("trial.a")) + "Result: ")
    expect(page.locator(".snn-gate")).to_be_visible()
    page.evaluate("html => document.querySelector('pre').insertAdjacentHTML('afterend', html)", gate._FAILED)
    expect(page.locator(".snn-gate")).to_be_hidden()
    expect(page.get_by_text("It is 2.72.")).to_be_visible()  # the cell ended in an error
    context = browser.new_context(java_script_enabled=False)
    still = context.new_page()  # as on GitHub, which takes styles and scripts away
    still.set_content(re.sub(r"(?s)<(style|script).*?</\1>", "", GATED.format(gate_of("trial.a"))))
    expect(still.get_by_text("It is 2.72.")).to_be_visible()
    context.close()


COLAB = """window.google = {colab: {kernel: {invokeFunction: async (name, args) =>
    ({data: {"application/json": await window.python(name, args[0])}})}}}"""


def test_on_colab_each_output_is_a_page_of_its_own_and_yet_they_know(browser, tmp_path, monkeypatch):
    monkeypatch.setenv("SNNKIT_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(progress, "_session", None)
    scorecard, known = progress.scorecard("first_spiking_neuron")._repr_html_(), {"line": cards.CHANNEL, "record": None}
    first, second = (question.find(key) for key in ("first_spiking_neuron.a", "first_spiking_neuron.b"))
    monkeypatch.setattr(gate, "on_colab", lambda: True)
    closed = cards.page(
        "gatePage", {"keys": {second["key"]: "01.b"}, "line": cards.CHANNEL}, gate._closed(), plain=True
    )
    compared = cards.page("outcomePage", known | {"question": second, "truth": 1, "open": False}, "")
    outputs = {
        "prediction": cards.page("predictPage", known | {"question": second}, ""),
        "outcome": f"<div><div>{closed}</div><div>hard 166</div><div>{compared}{scorecard}</div></div>",
    }
    progress.current().progress.locked("first_spiking_neuron.a", 1, 70)
    outputs["older"] = cards.page("predictPage", known | {"question": first}, "")
    context = browser.new_context()
    context.route("**/*", lambda route: route.fulfill(body=outputs[route.request.url.split("/")[-1]]))
    context.expose_function("python", lambda name, message: {cards.CHANNEL: predictions.receive}[name](message))
    context.add_init_script(COLAB)
    shown = {name: context.new_page() for name in outputs}
    for name, one in shown.items():
        one.goto(f"http://colab.test/{name}", wait_until="domcontentloaded")
    expect(shown["older"].locator(".predict")).to_contain_text("Locked, 70 % sure")
    expect(shown["outcome"].locator(".snn-gate")).to_contain_text("Hidden until you lock or skip prediction 01.b")
    expect(shown["outcome"].get_by_text("hard 166")).to_be_hidden()
    shown["prediction"].get_by_role("radio", name="the one with the soft reset").check()
    lock(shown["prediction"], 90)
    expect(shown["outcome"].locator(".outcome")).to_contain_text("You were 90 % sure")
    expect(shown["outcome"].get_by_text("hard 166")).to_be_visible()
    expect(shown["outcome"].locator("body")).to_contain_text("(2 of 10 made, 0 right)")
    context.close()


# Of outputs below a gate in the same cell, those that one can see.
SEEN = """cells => cells.flatMap(cell => [...cell.querySelectorAll('.jp-OutputArea-child')].slice(1))
    .filter(one => !one.parentElement.closest('.jp-OutputArea-child'))
    .filter(one => one.clientHeight > 0 || getComputedStyle(one).visibility !== 'hidden').map(one => one.innerText)"""


@pytest.mark.parametrize("name", find().select(["01", "04"]))
def test_run_all_without_an_answer_shows_none(notebook, name, monkeypatch):
    monkeypatch.setattr(progress, "_session", progress.Session(progress.Progress(None)))
    waiting = []
    for cell in notebook.code():
        waiting += [cell] if gate.closes(cell["source"], str(cell["index"])) else []
        for key in re.findall(r'(?m)^predict\("(.+)"\)', cell["source"]):
            gate.ask(key, None)
    assert len(waiting) >= len(question.read(name[3:])["predictions"]) / 3
    for cell in waiting:
        outputs = notebook.as_found(cell["source"])
        if outputs.locator(".jp-OutputArea-child").count() > 1:
            expect(outputs.locator(".snn-gate")).to_contain_text("Hidden until you lock or skip prediction")
            assert outputs.evaluate_all(SEEN) == []
    drawn = next(cell["source"] for cell in waiting if "viz.show(" in cell["source"])
    figure = notebook.outputs(drawn).locator(".js-plotly-plot").first  # its predictions are skipped
    expect(figure.locator(".main-svg").first).to_be_visible()
    expect(notebook.as_found(drawn).locator(".snn-gate")).to_be_hidden()
    assert figure.evaluate("plot => plot.clientWidth - plot.querySelector('.main-svg').clientWidth") == 0


@pytest.mark.parametrize("name", ["01_first_spiking_neuron"])
def test_with_a_kernel_a_prediction_opens_its_outcome_and_stays_locked(notebook):
    outcome = notebook.as_found('outcome("first_spiking_neuron.b"')
    expect(outcome).to_contain_text("Hidden until you lock or skip prediction 01.b")
    expect(outcome).not_to_contain_text("spikes in 1000 steps", use_inner_text=True)
    card = notebook.outputs('predict("first_spiking_neuron.b"')
    card.get_by_role("radio", name="the one with the soft reset").check()
    lock(card, 99)
    expect(card).not_to_contain_text("Right.")
    shoot(notebook.page, "01-prediction")
    outcome = notebook.as_found('outcome("first_spiking_neuron.b"')
    expect(outcome).to_contain_text("Right. You were 99 % sure")
    expect(outcome).to_contain_text("spikes in 1000 steps", use_inner_text=True)
    expect(notebook.outputs("scorecard(")).to_contain_text("(1 of 10 made, 1 right)")
    expect(notebook.outputs("scorecard(")).to_contain_text("99 % sure: right 1 of 1 times")
    index, source = notebook.find('predict("first_spiking_neuron.b"')
    notebook.write(index, f"course.start('first_spiking_neuron')\n{source}")  # as a new kernel would
    notebook.start_from(index)
    notebook.wait_until_done(seconds=90)
    notebook.write(index, source)
    expect(notebook.outputs('predict("first_spiking_neuron.b"')).to_contain_text("Locked, 99 % sure")
    expect(notebook.as_found('outcome("first_spiking_neuron.b"')).to_contain_text("You were 99 % sure")
