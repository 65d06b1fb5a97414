"""The playground in chromium, opened as a file: it learns, breaks, remembers its settings, and needs no server."""

import re

import pytest
from click.testing import CliRunner

from snnkit.lab.cli import main

FAILS = "window.Worker = class { constructor() { setTimeout(() => this.onerror()); } postMessage() {} }"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "playground.html"
    done = CliRunner().invoke(main, ["export", "--playground", str(file)])
    assert done.exit_code == 0, done.output
    return file


@pytest.fixture
def opened(page, path):
    requests = []
    page.on("request", lambda request: requests.append(request.url))

    def visit(link="", script=""):
        if script:
            page.add_init_script(script)
        page.goto(f"{path.as_uri()}{link}")
        until(page, "figure-accuracy", lambda text: text != "–")
        return page

    yield visit
    assert [url for url in requests if not url.startswith(("file:", "blob:", "data:"))] == []


def until(page, name, condition):
    """Wait for a text; the page forbids Playwright's own way, which evaluates strings there."""
    for _ in range(600):
        if condition(page.inner_text(f"#{name}")):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{name} is still {page.inner_text(f'#{name}')!r}")


def right(page, at_least):
    """Wait until so many per cent of the test set are right."""
    until(page, "figure-accuracy", lambda text: float(text.split()[0]) >= at_least)


@pytest.mark.parametrize(
    ("link", "goal", "script"),
    [
        ("#data=digits", 97, ""),
        ("", 90, ""),
        ("#data=xor", 95, ""),
        ("#data=circles", 95, "delete window.Worker"),
        ("#data=circles", 95, FAILS),
    ],
    ids=("digits", "yin-yang", "xor", "no workers", "workers that fail"),
)
def test_it_learns(opened, link, goal, script):
    page = opened(link, script)
    assert page.get_by_text("no Web Workers").count() == bool(script)
    page.keyboard.press("Space")
    right(page, goal)
    page.keyboard.press("Space")
    assert "right" in page.inner_text("#said")
    page.get_by_role("button", name="Start again").click()
    until(page, "figure-updates", "0".__eq__)
    page.get_by_role("button", name="One update").click()
    until(page, "figure-updates", "1".__eq__)


def test_mistakes_die_and_say_why(opened):
    page = opened()
    reasons = ("no gradient", "dead", "always or never")
    for name, reason in zip(("no width", "threshold too high", "rate too high"), reasons, strict=True):
        page.get_by_role("button", name=re.compile(name)).click()
        until(page, "diagnosis", lambda text, reason=reason: reason in text)
    page.get_by_role("button", name="Back to what works").click()
    right(page, 97)
    assert page.inner_text("#diagnosis") == ""


def test_try_this_starts_at_once_and_scrolls_to_the_network(opened):
    page = opened("#data=circles")
    link = page.get_by_role("link", name="A short memory")
    for _ in range(2):  # the same one again, too
        link.scroll_into_view_if_needed()
        page.wait_for_timeout(100)
        assert page.evaluate("scrollY") > 0
        link.click()
        until(page, "figure-updates", lambda text: int(text) > 0)
        assert "LIF(tau=3.0" in page.input_value("#code")
        for _ in range(100):  # smoothly
            if page.evaluate("scrollY") == 0:
                break
            page.wait_for_timeout(50)
        assert page.evaluate("scrollY") == 0
        page.get_by_role("button", name="Pause").click()


def test_each_colour_means_one_thing(opened):
    meanings, classes = {}, {"yin", "yang", "dot", "same", "different"}
    page = opened()
    for link in ("data=yinyang", "data=xor", "data=digits"):
        page.evaluate(f"location.hash = '{link}'")
        until(page, "network-legend", bool)
        page.wait_for_timeout(200)
        for colour, words in page.locator(".legend li").evaluate_all(
            "all => all.map(one => [getComputedStyle(one.querySelector('i')).color, one.textContent.trim()])"
        ):
            parts = [int(part) for part in re.findall(r"\d+", colour)]
            if max(parts) - min(parts) > 40:  # not a grey
                meanings.setdefault(colour, set()).add("a class" if words in classes else words)
    assert len(meanings) >= 7 and all(len(said) == 1 for said in meanings.values()), meanings


def test_links_code_and_keyboard(opened):
    page = opened("#data=spirals&neuron=ALIF&leak=7.5&hidden=3,999&speed=2")
    assert page.inner_text("#refused").splitlines()[0].startswith("hidden must be one to three whole numbers")
    assert page.locator("#refused br").count() == 1
    assert "ALIF(tau=7.5" in page.input_value("#code")
    page.get_by_role("textbox", name="threshold").fill("0.8")
    page.keyboard.press("Tab")
    page.wait_for_url("**/*#data=spirals&neuron=ALIF&leak=7.5&threshold=0.8")
    page.evaluate("location.hash = 'data=digits&neuron=IF'")
    page.wait_for_url("**/*#data=digits&neuron=IF")
    until(page, "neuron-text", lambda text: "for each digit" in text)
    assert "IF(v_threshold=1.0" in page.input_value("#code")
    page.focus("#network")
    for key in ("ArrowDown", "ArrowRight"):
        before = page.inner_text("#neuron-text")
        page.keyboard.press(key)
        assert page.inner_text("#neuron-text") != before
    page.evaluate("location.hash = 'data=yinyang'")
    until(page, "sample-text", lambda text: "The point" in text)
    page.focus("#decision")
    before = page.inner_text("#sample-text")
    page.keyboard.press("Shift+ArrowUp")
    until(page, "sample-text", lambda text: text != before)


def test_membrane_of_a_neuron(opened):
    page = opened("#data=digits&hidden=24,8")

    def shown():
        return page.inner_text("#membrane-text")

    def place():
        return [int(part) for part in re.findall(r"\d+", shown())[:2]]

    number = r"−?\d+\.\d\d"
    says = rf"hidden [12], neuron \d+: fires in \d+ of 10 steps; membrane {number}( to {number})?, threshold 1\.00\."
    assert re.fullmatch(says, shown())
    page.locator("#raster").click(position={"x": 200, "y": 235})  # the lowest row but the axis: an output
    assert shown().startswith("output 9: ")
    for _ in range(10):
        page.keyboard.press("ArrowUp")
    assert place() == [2, 8] and page.inner_text("#said") == shown()
    for _ in range(8):
        page.keyboard.press("ArrowUp")
    assert place() == [1, 24]
    page.keyboard.press("ArrowDown")
    assert place() == [2, 1]
    page.get_by_role("button", name="▶ Play").click()  # the chosen one stays, and follows the weights
    before = shown()
    until(page, "membrane-text", lambda text: text != before)
    assert place() == [2, 1]
    page.focus("#network")
    page.keyboard.press("ArrowDown")
    chosen = page.inner_text("#neuron-text").partition(":")[0]
    assert shown().startswith(f"{chosen}: ")


def test_first_minute(opened):
    page = opened()
    assert page.locator("#layers .bad").count() == 0  # random weights are no reason for an alarm

    def hint(number):
        until(page, "guide", lambda text: f"{number} of 5" in text)

    hint(1)
    page.keyboard.press("Space")
    hint(2)
    hint(3)  # once 90 % are right
    assert re.search(r"✓ 9\d % .* \d+ of 64 hidden neurons never fire", page.inner_text("#guide"))
    page.get_by_role("button", name="Show me where").click()
    for _ in range(54):
        page.keyboard.press("ArrowRight")
    hint(4)
    page.get_by_role("button", name="threshold θ: back").click()
    hint(5)
    page.get_by_role("button", name="Show me where").click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(page, "guide", lambda text: "first minute" in text)
    assert page.locator(".hinted").count() == 0
    page.get_by_role("button", name="Close").click()
    page.reload()
    until(page, "figure-accuracy", lambda text: text != "–")
    assert not page.is_visible("#guide")


def test_no_hints_where_a_link_brought_settings_or_the_reader_goes_on_alone(opened):
    assert not opened("#data=circles").is_visible("#guide")
    page = opened()
    page.evaluate("location.hash = ''")
    page.reload()
    page.get_by_role("button", name="Skip").click()
    until(page, "guide", lambda text: "2 of 5" in text)
    page.get_by_role("button", name="No memory").click()
    assert not page.is_visible("#guide") and page.locator(".hinted").count() == 0
