"""Predictions, outcomes and the quiz in a browser: as a file without a kernel, and in JupyterLab with one."""

from __future__ import annotations

import re

import pytest

from snnkit.course import card as cards
from snnkit.course import predictions, progress, question
from tests.course.test_predictions import TEXT

from .conftest import shoot

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect
READ = question.parse(TEXT, "99")
TRUTH = {"99.a": 1, "99.b": 2.72, "99.c": [[0.0, 0.6, 1.5], [1.0, 0.0, 1.8]]}
# 99.a has its answer in the file, 99.b here only from its outcome, 99.c always.
QUESTIONS = [one | ({"answer": None} if key == "99.b" else {}) for key, one in READ["predictions"].items()]


@pytest.fixture
def shown(page, tmp_path):
    """All cards on one narrow page, without a kernel."""
    pieces = [cards.page("outcomePage", {"question": QUESTIONS[1], "truth": 9.9, "record": RECORD, "line": None}, "")]
    for one in QUESTIONS:
        data = {"line": None, "question": one, "record": None}
        pieces.append(cards.page("predictPage", data, ""))
        pieces.append(cards.page("outcomePage", data | {"truth": TRUTH[one["key"]]}, ""))
    pieces.append(cards.page("quizPage", {"line": None, "notebook": "99", "questions": READ["quiz"]}, ""))
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
    expect(outcome).to_contain_text("Make your prediction above first")
    card.get_by_role("button", name="Lock").click()
    expect(card.get_by_role("status")).to_have_text("Choose an answer first.")
    card.get_by_role("radio", name="creeps").check()
    card.get_by_role("button", name="Lock").click()
    expect(card.get_by_role("status")).to_contain_text("How sure are you?")
    expect(card).not_to_contain_text("It “jumps”")
    lock(card)
    expect(card.locator("li.guess")).to_contain_text("your guess")
    expect(card.locator("li.result")).to_contain_text("jumps <b>")
    expect(card).to_contain_text('It "jumps".')
    expect(outcome).to_contain_text("Not this time. It is “jumps <b>”. You were 90 % sure.")
    card.get_by_role("button", name="Locked, 90 % sure").click()
    expect(card.get_by_role("status")).to_contain_text("is locked: your first answer counts")
    shown.reload()  # no kernel: the browser remembers
    expect(shown.locator(".predict").nth(0)).to_contain_text("Locked, 90 % sure")
    expect(shown.locator(".outcome").nth(1)).to_contain_text("Not this time")


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
    outcome.get_by_role("button", name="Show me").click()
    expect(outcome.locator("path.result")).to_be_visible()
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


COLAB = """window.google = {colab: {kernel: {invokeFunction: async (name, args) =>
    ({data: {"application/json": await window.python(name, args[0])}})}}}"""


def test_on_colab_each_output_is_a_page_of_its_own_and_yet_they_know(browser, tmp_path, monkeypatch):
    monkeypatch.setenv("SNNKIT_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(progress, "_session", None)
    scorecard, known = progress.scorecard("01")._repr_html_(), {"line": cards.CHANNEL, "record": None}
    first, second = (question.find(key) for key in ("01.a", "01.b"))
    outputs = {
        "prediction": cards.page("predictPage", known | {"question": second}, ""),
        "outcome": cards.page("outcomePage", known | {"question": second, "truth": 1}, "") + scorecard,
    }
    progress.current().progress.locked("01.a", 1, 70)
    outputs["older"] = cards.page("predictPage", known | {"question": first}, "")
    context = browser.new_context()
    context.route("**/*", lambda route: route.fulfill(body=outputs[route.request.url.split("/")[-1]]))
    context.expose_function("python", lambda name, message: {cards.CHANNEL: predictions.receive}[name](message))
    context.add_init_script(COLAB)
    shown = {name: context.new_page() for name in outputs}
    for name, one in shown.items():
        one.goto(f"http://colab.test/{name}", wait_until="domcontentloaded")
    expect(shown["older"].locator(".predict")).to_contain_text("Locked, 70 % sure")
    expect(shown["outcome"].locator(".outcome")).to_contain_text("Make your prediction above first")
    shown["prediction"].get_by_role("radio", name="the one with the soft reset").check()
    lock(shown["prediction"], 90)
    expect(shown["outcome"].locator(".outcome")).to_contain_text("You were 90 % sure")
    expect(shown["outcome"].locator("body")).to_contain_text("(2 of 9 made, 1 right)")
    context.close()


@pytest.mark.parametrize("name", ["01_first_spiking_neuron"])
def test_with_a_kernel_a_prediction_opens_its_outcome_and_stays_locked(notebook):
    outcome = notebook.outputs('outcome("01.b"')
    expect(outcome).to_contain_text("Make your prediction above first")
    outcome.get_by_role("button", name="Show me").click()
    card = notebook.outputs('predict("01.b"')
    card.get_by_role("radio", name="the one with the soft reset").check()
    lock(card, 99)
    expect(card).to_contain_text("Right.")
    shoot(notebook.page, "01-prediction")
    expect(notebook.outputs('outcome("01.b"')).to_contain_text("You were 99 % sure")
    expect(notebook.outputs("scorecard(")).to_contain_text("(1 of 9 made, 1 right)")
    expect(notebook.outputs("scorecard(")).to_contain_text("99 % sure: right 1 of 1 times")
    index, source = notebook.find('predict("01.b"')
    notebook.write(index, f"course.start('01')\n{source}")  # as a new kernel would
    notebook.start_from(index)
    notebook.wait_until_done(seconds=90)
    notebook.write(index, source)
    expect(notebook.outputs('predict("01.b"')).to_contain_text("Locked, 99 % sure")
    expect(notebook.outputs('outcome("01.b"')).to_contain_text("You were 99 % sure")
