// The cards of a course: a prediction that locks, the outcome beside it, and the quiz.

import {judge, numberOf} from "./course_answers.js";
import {courseHub, scorecardPage} from "./course_hub.js";
import {make} from "./controls.js";
import {numberLine, sketch} from "./sketch.js";

const SURE = [50, 70, 90, 99]; // percent
const STORE = "snnkit.course"; // guesses that no kernel knows, in the reader's browser
const LATE = 4000; // ms after which a kernel that does not reply is busy, or gone
let cardsMade = 0;
const cardsOf = Math.random().toString(36).slice(2, 8);

/** Text in which `…` marks code, as nodes. */
function rich(text) {
  return text.split("`").map((part, i) => (i % 2 ? make("code", {textContent: part}) : part));
}

const words = (className, ...parts) => make("p", {className}, ...parts);
const heading = (tag, text, id = "") =>
  words("head", make("span", {className: "tag"}, tag), make("span", {id}, ...rich(text)));

function card(place, label, kind) {
  place.className = `snn course ${kind}`;
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", label);
  place.setAttribute("data-lm-suppress-shortcuts", "true"); // a notebook has shortcuts of its own
  place.addEventListener("keydown", (event) => event.shiftKey || event.ctrlKey || event.metaKey || event.stopPropagation());
  const body = make("div", {className: "card"});
  place.replaceChildren(body);
  return body;
}

/** Choices, each a radio button in a row of its own. */
function choicesOf(texts, labelledBy, change) {
  const name = `snn-${cardsOf}-${++cardsMade}`;
  const inputs = texts.map((_, value) => make("input", {type: "radio", name, value}));
  const rows = texts.map((text, i) => make("label", {className: "choice"}, inputs[i], make("span", {}, ...rich(text))));
  inputs.forEach((input) => input.addEventListener("change", change));
  return {
    element: make("div", {className: "choices", role: "radiogroup", "aria-labelledby": labelledBy}, ...rows), inputs, rows,
    value: () => inputs.findIndex((input) => input.checked),
  };
}

/** What was locked and no kernel knows: {key: {guess, sure}}. */
function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORE)) ?? {};
  } catch {
    return {};
  }
}

/** Remembers a record in this browser, or with undefined forgets it. */
function store(key, record) {
  try {
    localStorage.setItem(STORE, JSON.stringify({...stored(), [key]: record}));
  } catch {
    // it lasts until the page is closed
  }
}

/** Calls known(record) as soon as the prediction is locked: now, by another page, or by the kernel. */
function whenLocked({question: {key}, line, record}, known) {
  const hub = courseHub();
  let done = false;
  const once = (one) => {
    if (!one || done) return;
    done = true;
    known(one);
  };
  hub.listen((news) => once(news.records?.[key]));
  const own = stored()[key];
  once(record ?? (line ? null : own));
  // The page may be older than what the kernel knows, and the guess older than the kernel.
  if (line && !done) hub.say(line, own ? {lock: key, ...own} : {known: [key]});
}

/** The guess and, once it is known (not null), the result, in a picture and in words; `brief`: in words. */
function compared(question, {guess, sure}, truth, brief = false) {
  const parts = [], verdict = truth === null ? null : judge(question, guess, truth);
  if (brief) {
    // the choices have been marked above
  } else if (question.kind === "choice") {
    const rows = question.choices.map((text, i) => {
      const marks = [i === guess && "your guess", i === truth && "result"].filter(Boolean);
      const sign = i === truth ? "✓" : i !== guess ? "○" : truth === null ? "●" : "✗";
      return make("li", {className: `${i === guess ? "guess" : ""} ${i === truth ? "result" : ""}`},
        make("span", {className: "sign", "aria-hidden": "true"}, sign),
        make("span", {}, ...rich(text), ...marks.map((mark) => make("span", {className: "mark"}, mark))));
      return row;
    });
    parts.push(make("ul", {className: "compared"}, ...rows));
  } else if (question.kind === "number") {
    parts.push(numberLine(question, guess, truth));
  } else {
    parts.push(sketch(question, {guess, result: truth}).element);
    const keys = [["guess", "your sketch"], ...(truth === null ? [] : [["result", "the result"]])];
    parts.push(words("legend", ...keys.map(([kind, text]) => make("span", {className: kind}, text))));
  }
  if (verdict) {
    const [kind, text] = verdict.right ? ["right", "✓ Right. "] : ["wrong", "✗ Not this time. "];
    const word = make("b", {className: kind}, text);
    const said = brief || question.kind !== "choice" ? `${verdict.words} ` : "";
    parts.push(words("verdict", word, ...rich(`${said}You were ${sure} % sure.`)));
  }
  return parts;
}

/** A field for the answer: {element, guess(): {value} or {problem}}. */
function answering(question, labelledBy, clear) {
  if (question.kind === "choice") {
    const choices = choicesOf(question.choices, labelledBy, clear);
    return {element: choices.element,
      guess: () => (choices.value() < 0 ? {problem: "Choose an answer first."} : {value: choices.value()})};
  }
  if (question.kind === "number") {
    const box = make("input", {type: "text", inputMode: "decimal", autocomplete: "off", size: 8,
      "aria-labelledby": labelledBy});
    box.addEventListener("input", clear);
    const element = make("label", {className: "number"}, "My guess:", box, question.unit);
    return {element, box, guess: () => numberOf(box.value, question)};
  }
  const field = sketch(question, {changed: clear, labelledBy});
  const again = make("button", {type: "button", className: "quiet", textContent: "Clear"});
  again.addEventListener("click", field.clear);
  const help = words("help", "Draw with mouse, pen or finger. Keyboard: ← → move, ↑ ↓ set the height.", again);
  return {element: make("div", {}, field.element, help), guess: () => {
    const value = field.heights();
    return value ? {value} : {problem: "Draw a curve from the left edge to the right."};
  }};
}

/**
 * A prediction: answer, how sure, lock; then the explanation.
 * @param {{question: Object, record: ?Object, line: ?string}} data `line` leads to the kernel, if there is one
 */
export function predictPage(place, data) {
  const {question, line} = data, hub = courseHub(), id = `snn-${cardsOf}-${++cardsMade}`;
  const body = card(place, `Prediction ${question.key}`, "predict");
  const says = make("p", {className: "says", role: "status"});
  const clear = () => (says.textContent = "");
  const answer = answering(question, id, clear);
  const name = `${id}-sure`;
  const levels = SURE.map((value) => make("input", {type: "radio", name, value, "aria-label": `${value} % sure`}));
  levels.forEach((level) => level.addEventListener("change", clear));
  const sure = make("div", {className: "sure", role: "radiogroup", "aria-label": "How sure are you?"},
    make("span", {}, "How sure?"), ...levels.map((level, i) => make("label", {}, level, make("span", {}, `${SURE[i]} %`))));
  const lock = make("button", {type: "button", className: "primary", textContent: "Lock"});
  const head = heading("Predict", question.ask, id);
  const entry = make("div", {className: "entry"}, answer.element, make("div", {className: "foot"}, sure, lock));
  const after = make("div", {className: "after", hidden: true});
  body.append(head, entry, after, says);

  let locked = false, late = 0;
  lock.addEventListener("click", () => {
    if (locked) {
      says.textContent = "This prediction is locked: your first answer counts.";
      return;
    }
    const {value, problem} = answer.guess(), level = levels.find((one) => one.checked);
    if (problem || !level) {
      says.textContent = problem ?? "How sure are you? Choose 50, 70, 90 or 99 %.";
      (problem ? (answer.box ?? entry.querySelector("input, .field")) : levels[0]).focus();
      return;
    }
    const record = {guess: value, sure: Number(level.value)};
    store(question.key, record);
    if (line) {
      hub.say(line, {lock: question.key, ...record});
      late = setTimeout(() => (says.textContent = "Not saved yet: the kernel is busy, or it was stopped."), LATE);
    }
    hub.spread({records: {[question.key]: record}});
  });
  hub.listen((news) => {
    const saved = "when" in (news.records?.[question.key] ?? {});
    if (saved) store(question.key, undefined);
    if (late && (saved || news.refused)) {
      clearTimeout(late);
      late = 0;
      says.textContent = saved ? "" : `Not saved: ${news.refused}`;
    }
  });
  whenLocked(data, (record) => {
    const inside = place.contains(document.activeElement);
    locked = true;
    place.classList.add("locked");
    const later = words("help", question.answer === null ? "Run on: the result comes below." : "");
    entry.replaceChildren(...compared(question, record, question.answer));
    lock.textContent = `Locked, ${record.sure} % sure`;
    lock.className = "quiet";
    after.replaceChildren(words("why", ...rich(question.why)), make("div", {className: "foot"}, later, lock));
    after.hidden = false;
    if (inside) lock.focus({preventScroll: true});
  });
}

/** The result beside the prediction; hidden until that is locked. @param {Object} data as of predictPage, and `truth` */
export function outcomePage(place, data) {
  const {question, truth} = data, body = card(place, `Outcome of prediction ${question.key}`, "outcome");
  const head = heading("Outcome", question.ask);
  const open = (...parts) => body.replaceChildren(head, make("div", {className: "entry"}, ...parts));
  const show = make("button", {type: "button", className: "quiet", textContent: "Show me"});
  show.addEventListener("click", () => {
    if (question.kind === "sketch") open(sketch(question, {guess: [], result: truth}).element);
    else if (question.kind === "number") open(make("p", {}, `${Number(truth.toPrecision(3))} ${question.unit}`));
    else open(make("p", {}, ...rich(question.choices[truth])));
  });
  open(words("waiting", "Make your prediction above first. ", show));
  const brief = question.kind === "choice" && question.answer === truth; // the choices are marked above
  whenLocked(data, (record) => open(...compared(question, record, truth, brief)));
}

/**
 * The quiz: a reply to each choice, a second try, then the solution.
 * @param {{notebook: string, questions: Object[], line: ?string}} data
 */
export function quizPage(place, {notebook, questions, line}) {
  const body = card(place, `Quiz of notebook ${notebook}`, "quiz");
  questions.forEach((question, index) => {
    const id = `snn-${cardsOf}-${++cardsMade}`, replies = make("div", {role: "status"});
    const check = make("button", {type: "button", textContent: "Check"});
    const texts = question.choices.map((choice) => choice.text);
    const choices = choicesOf(texts, id, () => (check.className = "primary"));
    const say = (sign, kind, ...parts) => replies.append(words(`reply ${kind}`, make("b", {}, sign), ...parts));
    let tries = 0;
    check.addEventListener("click", () => {
      const chosen = choices.value();
      replies.replaceChildren();
      if (chosen < 0 || choices.inputs[chosen].disabled) {
        say("", "", "Choose an answer first.");
        return;
      }
      const {right, reply} = question.choices[chosen], solution = question.choices.findIndex((choice) => choice.right);
      tries++;
      if (line) courseHub().say(line, {quiz: notebook, index, right});
      choices.rows[chosen].classList.add(right ? "result" : "wrong");
      say(right ? "✓ Right. " : "✗ Not quite. ", right ? "right" : "wrong", ...rich(reply));
      if (!right && tries < 2 && texts.length > 2) {
        choices.inputs[chosen].disabled = true;
        choices.inputs[chosen].checked = false;
        check.textContent = "Check again";
        check.className = "";
        return;
      }
      choices.rows[solution].classList.add("result");
      if (!right) say("Solution: ", "", ...rich(texts[solution]));
      say("", "why", ...rich(question.why));
      choices.inputs.forEach((input) => (input.disabled = true));
      check.hidden = true;
    });
    body.append(make("div", {className: "question"},
      heading(String(index + 1), question.text, id),
      choices.element, check, replies));
  });
}
