// What the pages of a course have in common, wherever in a notebook they are: news, and the lines to kernels.

/**
 * @import {Guess} from "./course_answers.js"
 * @typedef {{guess: ?Guess, sure: ?number, saved?: boolean, when?: string}} Answer to a prediction; without a guess: it
 *   is skipped. `saved`: a kernel knows it; `when`: this comes from a kernel
 * @typedef {{records?: Object<string, Answer>, scorecards?: Object<string, string>, refused?: string}} News answers by
 *   the keys of predictions, HTML by notebook
 * @typedef {{known: string[]}|{lock: string, guess: ?Guess, sure: ?number}|{skip: string}
 *   |{quiz: string, index: number, right: boolean}} Message to a kernel, as course/predictions.py reads it
 * @typedef {function(News): void} Listener
 * @typedef {function(Message): void} Send
 * @typedef {{records: Object<string, Answer>, hears: function(string): boolean, listen: function(Listener): void,
 *   spread: Listener, say: function(string, Message): void, connect: function(string, Send): void}} Hub
 */

/**
 * The hub of this document, one for all pages: `say(line, message)` to a kernel, `spread(news)` to all pages,
 * `listen(receive)` for news, `connect(line, send)` for whoever carries a line. Colab's outputs are documents of their own.
 * @returns {Hub}
 */
export function courseHub() {
  if (globalThis.snnkitCourse) return globalThis.snnkitCourse;
  const listeners = /** @type {Listener[]} */ ([]), lines = /** @type {Object<string, Send>} */ ({});
  const waiting = /** @type {Array<[string, Message]>} */ ([]), records = /** @type {Object<string, Answer>} */ ({});
  const colab = globalThis.google?.colab?.kernel;
  const channel = colab && new BroadcastChannel("snnkit.course");
  /** @param {News} news */
  const receive = (news) => {
    Object.assign(records, news.records);
    listeners.forEach((listener) => listener(news));
  };
  /** @type {Hub} */
  const hub = {
    records, // of predictions, as far as this document has heard of them
    hears: (line) => Boolean(colab || lines[line]),
    listen: (listener) => listeners.push(listener),
    spread(news) {
      channel?.postMessage(news);
      receive(news);
    },
    say(line, message) {
      if (colab) {
        colab.invokeFunction("snnkit.course", [message], {})
          .then((reply) => hub.spread(reply.data["application/json"]), () => {});
        return;
      }
      try {
        lines[line](message);
      } catch {
        waiting.push([line, message]); // its carrier is not there yet, or its kernel was stopped
      }
    },
    connect(line, send) {
      lines[line] = send;
      for (const [wanted, message] of waiting.splice(0)) hub.say(wanted, message);
    },
  };
  if (channel) channel.onmessage = (event) => receive(event.data);
  return (globalThis.snnkitCourse = hub);
}

const STORE = "snnkit.course";
export const LATE = 4000; // ms after which a kernel that does not reply is busy, or gone

/** What was answered in this browser, by the keys of predictions. @returns {Object<string, Answer>} */
function stored() {
  try {
    return JSON.parse(/** @type {string} */ (localStorage.getItem(STORE))) ?? {};
  } catch {
    return {};
  }
}

/** Remembers a record in this browser. @param {string} key @param {Answer} record */
export function store(key, record) {
  try {
    localStorage.setItem(STORE, JSON.stringify({...stored(), [key]: record}));
  } catch {
    // it lasts until the page is closed
  }
}

/**
 * Tells all pages and the kernel how the learner has answered a prediction; without a guess: it is skipped.
 * @param {?string|undefined} line @param {string} key @param {?Guess} guess @param {?number} sure percent
 */
export function answered(line, key, guess = null, sure = null) {
  const record = {guess, sure}, hub = courseHub();
  store(key, record);
  if (line) hub.say(line, sure ? {lock: key, ...record} : {skip: key});
  hub.spread({records: {[key]: record}});
}

/**
 * Calls known(record) as soon as a prediction is locked or skipped: now, by another page, or by the kernel.
 * @param {{key: string, line?: ?string, record?: ?Answer}} prediction @param {function(Answer): void} known
 */
export function whenAnswered({key, line, record}, known) {
  const hub = courseHub(), own = stored()[key];
  let done = false;
  /** @param {?Answer|undefined} one */
  const once = (one) => {
    if (!one || done) return;
    done = true;
    known(one);
  };
  hub.listen((news) => once(news.records?.[key]));
  once(record ?? hub.records[key] ?? (line ? null : own));
  if (!line || done) return;
  // The page may be older than what the kernel knows, and the answer older than the kernel.
  hub.say(line, !own || own.saved ? {known: [key]} : own.sure ? {lock: key, guess: own.guess, sure: own.sure} : {skip: key});
  setTimeout(() => {
    if (!hub.hears(line)) once(own); // the page was saved, and its kernel is gone
  }, LATE);
}

/**
 * Hides the outputs below it until all predictions in `keys`, by key to label, are answered.
 * @param {HTMLElement} place @param {{keys: Object<string, string>, line: ?string}} data
 */
export function gatePage(place, {keys, line}) {
  const gate = /** @type {HTMLElement} */ (place.querySelector(".snn-gate")), left = new Set(Object.keys(keys));
  const button = document.createElement("button");
  const shown = document.createElement("span");
  const say = () => {
    const names = [...left].map((key) => keys[key]), last = names.pop();
    const which = names.length ? `predictions ${names.join(", ")} and ${last}` : `prediction ${last}`;
    shown.textContent = `Hidden until you lock or skip ${which} above. `;
    button.textContent = "Skip";
    button.setAttribute("aria-label", `Skip ${which}, and show what is hidden`);
    gate.classList.toggle("closed", left.size > 0);
  };
  button.type = "button";
  button.addEventListener("click", () => {
    place.focus({preventScroll: true}); // what follows is read next
    [...left].forEach((key) => answered(line, key));
  });
  place.tabIndex = -1;
  place.setAttribute("data-lm-suppress-shortcuts", "true"); // a notebook has shortcuts of its own
  place.addEventListener("keydown", (event) => event.stopPropagation());
  gate.replaceChildren(shown, button);
  say();
  for (const key of Object.keys(keys)) {
    whenAnswered({key, line}, () => {
      left.delete(key);
      say();
    });
  }
}

/**
 * Keeps a scorecard, which is HTML of the kernel, as it is there now.
 * @param {HTMLElement} place @param {{notebook: string}} data
 */
export function scorecardPage(place, {notebook}) {
  courseHub().listen(({scorecards}) => {
    if (scorecards?.[notebook]) place.innerHTML = scorecards[notebook];
  });
}
