"""The page of a trained network, opened as a file: it reads what is drawn, and answers mouse, keys and changes."""

import re

import pytest
import torch

from snnkit import neuron
from snnkit.lab import pages
from snnkit.nn import Sequential

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect

# Ten digits as one draws them: x,y in percent of the field, strokes with | between them.
STROKES = (
    "52,12 40,15 31,26 27,42 27,60 31,76 40,87 51,90 62,86 70,74 74,57 72,38 66,22 57,13 50,12",
    "36,32 45,24 54,13 54,30 54,50 53,70 53,90",
    "28,30 32,18 44,11 58,13 67,24 66,38 57,53 44,68 29,87 45,87 60,87 74,86",
    "30,19 42,11 57,12 66,21 65,34 55,44 43,47 57,50 69,59 71,73 62,86 46,90 29,84",
    "52,11 44,27 36,43 27,60 42,61 58,61 76,60 | 60,38 60,55 59,72 59,91",
    "69,13 52,13 36,14 34,29 32,45 45,41 59,43 69,53 70,69 62,82 47,89 29,85",
    "64,12 51,20 40,34 33,51 32,69 38,83 50,89 63,85 69,73 65,61 53,55 41,60 34,70",
    "27,15 42,15 57,14 73,14 65,31 57,48 49,67 43,89",
    "66,22 54,12 40,14 33,25 40,37 53,46 65,57 70,71 63,84 50,89 36,84 31,71 37,58 50,47 62,37 67,26 64,19",
    "67,27 57,15 43,14 33,25 34,39 45,47 58,43 67,30 67,48 65,66 61,90",
)
NO_ANSWER = "No answer: no output neuron has fired."
ALL_THAT_IS_SPOKEN = """() => {
  const spoken = document.getElementById("spoken"), all = [];
  new MutationObserver(() => {
    all.push(spoken.textContent);
    spoken.dataset.all = all.join("; ");
  }).observe(spoken, {childList: true, characterData: true, subtree: true});
}"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return pages.reader(tmp_path_factory.mktemp("page") / "net.html")


@pytest.fixture
def opened(page, path):
    """The page, running fast, with all that it requests in ``page.requests``."""
    page.requests = []
    page.on("request", lambda request: page.requests.append(request.url))
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto(path.as_uri())
    for _ in range(5):
        page.get_by_role("button", name="Faster").click()
    return page


def draw(page, strokes, mouse=None):
    """On the page, or with the ``mouse`` of a notebook on the frame that it is in."""
    mouse = mouse or page.mouse
    page.get_by_role("button", name="Clear").click()
    box = page.locator("#pad").bounding_box()
    for stroke in strokes.split("|"):
        points = [[float(part) / 100 for part in point.split(",")] for point in stroke.split()]
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
        mouse.move(*points[0])
        mouse.down()
        for point in points:
            mouse.move(*point, steps=3)
        mouse.up()


def reads(page, what):
    expect(page.locator("#spoken")).to_have_text(f"The network reads {what}.", timeout=10_000)


def test_it_reads_ten_drawn_digits_and_requests_nothing(opened):
    expect(opened.locator("#hint")).to_contain_text("Test image 1 of 100: a 0")
    for digit, strokes in enumerate(STROKES):
        draw(opened, strokes)
        reads(opened, digit)
    # In a corner, and small: it is scaled and centred.
    draw(opened, " ".join(f"{int(x) / 4},{int(y) / 4}" for x, y in (p.split(",") for p in STROKES[2].split())))
    reads(opened, 2)
    assert opened.requests == [opened.url] and opened.url.startswith("file:")


def test_without_hidden_spikes_the_vote_dies_and_a_high_threshold_is_as_bad(opened):
    draw(opened, STROKES[3])
    reads(opened, 3)
    opened.get_by_role("button", name="Silence hidden").click()
    expect(opened.locator("#certainty")).to_have_text(NO_ANSWER)
    opened.get_by_role("button", name="Wake all").click()
    reads(opened, 3)
    opened.get_by_label("Threshold", exact=True).press("End")
    expect(opened.locator("#certainty")).to_have_text(NO_ANSWER)
    opened.get_by_role("button", name="As trained").click()
    reads(opened, 3)


def test_a_run_says_when_it_is_sure_and_ends(opened):
    draw(opened, STROKES[3])
    reads(opened, 3)
    words = r"the answer: \d+ votes? to \d+; at least 99 % sure \(softmax of the votes\) since step \d+"
    expect(opened.locator("#certainty")).to_have_text(re.compile(words))
    play = opened.locator("#transport button").first
    expect(play).to_have_text("Play")
    play.click()
    expect(play).to_have_text("Pause")
    reads(opened, 3)
    draw(opened, STROKES[7])  # after the end, a drawing still starts a run
    reads(opened, 7)
    for words in ("spike", "excites", "inhibits", "silenced"):
        expect(opened.locator(".legend").get_by_text(words)).to_be_visible()


def test_it_says_why_it_reads_a_digit_and_what_nearly_won(opened):
    draw(opened, STROKES[3])
    reads(opened, 3)
    expect(opened.locator("#certainty")).to_contain_text(re.compile(r"the answer: \d+ votes? to \d"))  # at the end
    votes, least = re.search(r"(\d+) votes? to (\d+)", opened.inner_text("#certainty")).groups()
    why, ask = opened.locator("#why"), opened.locator("#ask button")
    ask.first.click()
    next_ = re.fullmatch(r"Why not (\d)\?", ask.nth(1).inner_text())[1]
    expect(why).to_contain_text(f"3 leads with {votes} votes. Next is {next_} with {least} vote")
    charges = r"charges of \+(\d+\.\d\d) and −(\d+\.\d\d) \(weight × spikes\)"
    assert re.search(charges, why.inner_text()) and f"made {votes} spikes" in why.inner_text()
    expect(opened.locator(".legend").get_by_text("excites it")).to_be_visible()
    box = opened.locator("#stage").bounding_box()  # the bar of 7: the last but two of ten rows
    opened.mouse.click(box["x"] + box["width"] - 20, box["y"] + 22 + (box["height"] - 22) / 2 + 2.5 * 46)
    expect(why).to_contain_text(re.compile("^7 has "))
    ask.nth(1).click()
    fewer = int(votes) - int(least)
    expect(why).to_contain_text(re.compile(f"^{next_} has {least} votes?, {fewer} fewer than 3, which leads"))
    opened.keyboard.press("Escape")
    expect(why).to_be_empty()
    expect(opened.locator(".legend").get_by_text("membrane")).to_be_visible()
    ask.first.click()
    opened.locator("#transport button").first.click()  # another run has other reasons
    expect(why).to_be_empty()


def test_a_tie_shows_all_that_lead_and_steps_count_from_0(page, tmp_path):
    net = Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3), neuron.IF())
    torch.nn.init.zeros_(net[1].weight)
    net[1].bias.data[:] = torch.tensor([1.5, 1.5, -9.0])
    page.goto(pages.page(net, tmp_path / "tie.html", size=(1, 2, 2), steps=3, labels=list("abc")).as_uri())
    certainty, spoken = page.locator("#certainty"), page.locator("#spoken")
    expect(spoken).to_have_text("A tie: the network reads a or b.")
    for words in ("a tie after step 0: 1 vote each", "a tie after step 1: 2 votes each"):
        page.get_by_role("button", name="One step").click()
        expect(certainty).to_have_text(words)
    page.get_by_role("button", name="One step").click()
    expect(certainty).to_have_text("a tie: 3 votes each; code that takes the first of them (argmax) answers a")
    expect(page.locator("#reading")).to_have_text("a or b")


def test_all_of_it_is_reached_by_keys(opened):
    keys = opened.keyboard
    opened.locator("body").click(position={"x": 2, "y": 2})
    for _ in range(60):
        keys.press("Tab")
        opened.evaluate("document.activeElement.dataset.seen = 1")
    every = ":is(canvas[tabindex], button:not(:disabled), input, summary, select):not([data-seen]):visible"
    missed = opened.locator(every).evaluate_all("all => all.map(one => one.outerHTML)")
    assert missed == []
    opened.locator("#pad").focus()
    for key in ("Delete", " ", *["ArrowDown"] * 14, " "):  # a one
        keys.press(key)
    reads(opened, 1)
    opened.evaluate(ALL_THAT_IS_SPOKEN)  # on a slow machine it is spoken over before anyone looks
    opened.locator("#stage").focus()
    for key, spoken in (("ArrowRight", ": "), ("Enter", ": silenced")):
        keys.press(key)
        expect(opened.locator("#spoken")).to_have_attribute("data-all", re.compile(f"neuron 1 of 128{spoken}"))
    keys.press("PageDown")
    expect(opened.locator("#spoken")).to_have_attribute("data-all", re.compile("output 0: "))


def test_nothing_breaks_it(opened):
    opened.get_by_role("button", name="Clear").click()
    expect(opened.locator("#certainty")).to_have_text(NO_ANSWER)  # of an empty field
    opened.mouse.move(*(opened.locator("#pad").bounding_box()[side] + 30 for side in "xy"))
    opened.mouse.down()
    opened.mouse.move(-50, 2000)
    opened.set_viewport_size({"width": 380, "height": 700})
    opened.mouse.move(900, 40, steps=4)
    opened.mouse.up()
    opened.get_by_role("button", name="Pause").click()
    opened.get_by_role("button", name="One step").click()
    opened.set_viewport_size({"width": 1500, "height": 900})
    opened.emulate_media(color_scheme="dark", reduced_motion="reduce")
    opened.get_by_role("switch", name="Sound").check()
    opened.get_by_role("button", name="Play").click()
    for _ in range(3):
        opened.get_by_role("button", name="Test image").click()
    label = opened.locator("#hint").inner_text().split(" a ")[1][0]
    reads(opened, label)
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
