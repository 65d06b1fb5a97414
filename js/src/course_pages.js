// The cards of a course: a prediction that locks, the outcome beside it, and the quiz.

import {judge, numberOf} from "./course_answers.js";
import {answered, courseHub, LATE, store, whenAnswered} from "./course_hub.js";
import {make} from "./controls.js";
import {numberLine, sketch} from "./sketch.js";

/**
 * @import {ChoiceQuestion, Curve, Guess, NumberQuestion, Question, Truth} from "./course_answers.js"
 * @import {Answer} from "./course_hub.js"
 * @typedef {{question: Question, record?: ?Answer, line: ?string}} Prediction `line` leads to the kernel, if there is
 *   one
 * @typedef {{text: string, why: string, choices: Array<{text: string, reply: string, right: boolean}>}} QuizQuestion
 * @typedef {Node|string} Part of an element
 */

const SURE = [50, 70, 90, 99]; // percent
let cardsMade = 0;
const cardsOf = Math.random().toString(36).slice(2, 8);

/** Text in which `…` marks code, as nodes. @param {string} text */
function rich(text) {
  return text.split("`").map((part, i) => (i % 2 ? make("code", {textContent: part}) : part));
}

/** @param {string} className @param {Part[]} parts */
const words = (className, ...parts) => make("p", {className}, ...parts);
/** @param {string} tag @param {string} text */
const heading = (tag, text, id = "") =>
  words("head", make("span", {className: "tag"}, tag), make("span", {id}, ...rich(text)));

/** @param {HTMLElement} place @param {string} label @param {string} kind */
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

/**
 * Choices, each a radio button in a row of its own.
 * @param {string[]} texts @param {string} labelledBy @param {function(): void} change
 */
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

/**
 * The guess and, once it is known (not null), the result, in a picture and in words.
 * @param {Question} question @param {Answer} answer @param {?Truth} truth
 */
function compared(question, {guess, sure}, truth) {
  const parts = [], verdict = truth === null ? null : judge(question, /** @type {Guess} */ (guess), truth);
  if (question.kind === "choice") {
    const rows = question.choices.map((text, i) => {
      const marks = /** @type {string[]} */ ([i === guess && "your guess", i === truth && "result"].filter(Boolean));
      const sign = i === truth ? "✓" : i !== guess ? "○" : truth === null ? "●" : "✗";
      return make("li", {className: `${i === guess ? "guess" : ""} ${i === truth ? "result" : ""}`},
        make("span", {className: "sign", "aria-hidden": "true"}, sign),
        make("span", {}, ...rich(text), ...marks.map((mark) => make("span", {className: "mark"}, mark))));
    });
    parts.push(make("ul", {className: "compared"}, ...rows));
  } else if (question.kind === "number") {
    parts.push(numberLine(question, /** @type {number} */ (guess), /** @type {?number} */ (truth)));
  } else {
    parts.push(sketch(question, /** @type {{guess: number[], result: ?Curve}} */ ({guess, result: truth})).element);
    const keys = [["guess", "your sketch"], ...(truth === null ? [] : [["result", "the result"]])];
    parts.push(words("legend", ...keys.map(([kind, text]) => make("span", {className: kind}, text))));
  }
  if (verdict) {
    const [kind, text] = verdict.right ? ["right", "✓ Right. "] : ["wrong", "✗ Not this time. "];
    const word = make("b", {className: kind}, text);
    const said = question.kind === "choice" ? "" : `${verdict.words} `;
    parts.push(words("verdict", word, ...rich(`${said}You were ${sure} % sure.`)));
  }
  return parts;
}

/** The result alone, for one who has not guessed. @param {Question} question @param {Truth} truth */
function result(question, truth) {
  if (question.kind === "sketch") return sketch(question, {guess: [], result: /** @type {Curve} */ (truth)}).element;
  if (question.kind === "choice") {
    return words("result", make("b", {}, "Result: "), ...rich(question.choices[/** @type {number} */ (truth)]));
  }
  return words("result", make("b", {}, "Result: "),
    `${Number(/** @type {number} */ (truth).toPrecision(3))} ${question.unit}`);
}

/**
 * A field for the answer.
 * @param {Question} question @param {string} labelledBy @param {function(): void} clear
 * @returns {{element: HTMLElement, box?: HTMLInputElement,
 *   guess: function(): {value: Guess, problem?: undefined}|{problem: string, value?: undefined}}}
 */
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
 * A prediction: answer, how sure, lock; or skip.
 * @param {HTMLElement} place @param {Prediction} data
 */
export function predictPage(place, data) {
  const {question, line} = data, hub = courseHub(), id = `snn-${cardsOf}-${++cardsMade}`;
  const body = card(place, `Prediction ${question.label}`, "predict");
  place.dataset.question = question.key;
  const says = make("p", {className: "says", role: "status"});
  const clear = () => (says.textContent = "");
  const answer = answering(question, id, clear);
  const name = `${id}-sure`;
  const levels = SURE.map((value) => make("input", {type: "radio", name, value, "aria-label": `${value} % sure`}));
  levels.forEach((level) => level.addEventListener("change", clear));
  const sure = make("div", {className: "sure", role: "radiogroup", "aria-label": "How sure are you?"},
    make("span", {}, "How sure?"), ...levels.map((level, i) => make("label", {}, level, make("span", {}, `${SURE[i]} %`))));
  const lock = make("button", {type: "button", className: "primary", textContent: "Lock"});
  const skip = make("button", {type: "button", className: "quiet", textContent: "Skip",
    title: "Show the result without a guess", "aria-label": `Skip prediction ${question.label}, and show the result without a guess`});
  const head = heading("Predict", question.ask, id);
  const entry = make("div", {className: "entry"}, answer.element, make("div", {className: "foot"}, sure, make("span", {className: "keys"}, skip, lock)));
  body.append(head, entry, says);

  let locked = false, late = /** @type {ReturnType<typeof setTimeout>|number} */ (0);
  lock.addEventListener("click", () => {
    if (locked) {
      says.textContent = "This prediction is closed: your first answer counts.";
      return;
    }
    const {value, problem} = answer.guess(), level = levels.find((one) => one.checked);
    if (problem || !level) {
      says.textContent = problem ?? "How sure are you? Choose 50, 70, 90 or 99 %.";
      /** @type {HTMLElement} */ (problem ? (answer.box ?? entry.querySelector("input, .field")) : levels[0]).focus();
      return;
    }
    send(value, Number(level.value));
  });
  skip.addEventListener("click", () => send());
  /** @param {Guess} [guess] @param {number} [sure] */
  function send(guess, sure) {
    if (line) late = setTimeout(() => (says.textContent = "Not saved yet: the kernel is busy, or it was stopped."), LATE);
    answered(line, question.key, guess, sure);
  }
  hub.listen((news) => {
    const record = news.records?.[question.key], saved = record && "when" in record;
    if (saved) store(question.key, {guess: record.guess, sure: record.sure, saved: true});
    if (late && (saved || news.refused)) {
      clearTimeout(late);
      late = 0;
      says.textContent = saved ? "" : `Not saved: ${news.refused}`;
    }
  });
  whenAnswered({...data, key: question.key}, (record) => {
    const inside = place.contains(document.activeElement);
    locked = true;
    place.classList.add("locked");
    lock.textContent = record.sure ? `Locked, ${record.sure} % sure` : "Skipped";
    lock.className = "quiet";
    const foot = make("div", {className: "foot"}, words("help", "Run on: the result comes below."), lock);
    entry.replaceChildren(...(record.sure ? compared(question, record, null) : []), foot);
    if (inside) lock.focus({preventScroll: true});
  });
}

/**
 * The result beside the prediction, and why; both are hidden until that is locked or skipped.
 * @param {HTMLElement} place
 * @param {Prediction & {truth: Truth, open?: boolean}} data `open`: nobody is there to guess, so nothing is hidden
 */
export function outcomePage(place, data) {
  const {question, truth, line} = data, body = card(place, `Outcome of prediction ${question.label}`, "outcome");
  const asked = `[data-question="${CSS.escape(question.key)}"]`; // its card says the question already
  const head = () => heading("Outcome", document.querySelector(asked) ? "" : question.ask);
  /** @param {Part[]} parts */
  const open = (...parts) =>
    body.replaceChildren(head(), make("div", {className: "entry"}, ...parts), words("why", ...rich(question.why)));
  const skip = make("button", {type: "button", className: "quiet", textContent: "Skip",
    "aria-label": `Skip prediction ${question.label}, and show its result`});
  skip.addEventListener("click", () => answered(line, question.key));
  const waiting = words("waiting", "Lock or skip your prediction above first. ", skip);
  if (data.open) open(result(question, truth));
  else body.replaceChildren(head(), make("div", {className: "entry"}, waiting));
  whenAnswered({...data, key: question.key}, (record) =>
    open(...(record.sure ? compared(question, record, truth) : [result(question, truth)])));
}

/**
 * The quiz: a reply to each choice, a second try, then the solution.
 * @param {HTMLElement} place @param {{notebook: string, label: string, questions: QuizQuestion[], line: ?string}} data
 */
export function quizPage(place, {notebook, label, questions, line}) {
  const body = card(place, `Quiz of notebook ${label}`, "quiz");
  questions.forEach((question, index) => {
    const id = `snn-${cardsOf}-${++cardsMade}`, replies = make("div", {role: "status"});
    const check = make("button", {type: "button", textContent: "Check"});
    const texts = question.choices.map((choice) => choice.text);
    const choices = choicesOf(texts, id, () => (check.className = "primary"));
    /** @param {string} sign @param {string} kind @param {Part[]} parts */
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
