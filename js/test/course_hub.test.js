import assert from "node:assert/strict";
import test, {beforeEach} from "node:test";
import {answered, courseHub, LATE, whenAnswered} from "../src/course_hub.js";

/** @import {Answer, Message, News} from "../src/course_hub.js" */

const STORE = "snnkit.course", GUESS = {guess: 2, sure: 90}, SKIPPED = {guess: null, sure: null};
const kept = /** @type {Map<string, string>} */ (new Map()); // by the browser

beforeEach(() => {
  kept.clear();
  globalThis.snnkitCourse = globalThis.google = undefined; // a new document
  globalThis.localStorage = /** @type {Storage} */ (/** @type {unknown} */ (
    {getItem: (/** @type {string} */ key) => kept.get(key) ?? null, setItem: kept.set.bind(kept)}));
});

/** The answers that a page is told of. @param {Parameters<typeof whenAnswered>[0]} prediction */
function told(prediction) {
  const answers = /** @type {Answer[]} */ ([]);
  whenAnswered(prediction, (answer) => answers.push(answer));
  return answers;
}

/** What a kernel at the end of a line hears. @param {string} line */
function heard(line) {
  const messages = /** @type {Message[]} */ ([]);
  courseHub().connect(line, (message) => messages.push(message));
  return messages;
}

test("an answer on one page is known to the others of the document, once", () => {
  const before = told({key: "a"}), other = told({key: "b"});
  answered(null, "a", 2, 90);
  answered(null, "a");
  assert.deepEqual([before, other, told({key: "a"})], [[GUESS], [], [SKIPPED]]);
});

test("an answer outlives the page, beside others, whatever the browser had stored", () => {
  for (const text of ["null", "{damaged", JSON.stringify({b: SKIPPED})]) {
    kept.set(STORE, text);
    answered(null, "a", 2, 90);
    globalThis.snnkitCourse = undefined;
    assert.deepEqual(told({key: "a"}), [GUESS]);
  }
  assert.deepEqual(told({key: "b"}), [SKIPPED]);
});

test("a browser that stores nothing still tells the pages", () => {
  Object.assign(localStorage, {getItem: () => assert.fail(), setItem: () => assert.fail()});
  const page = told({key: "a"});
  answered(null, "a", 2, 90);
  assert.deepEqual(page, [GUESS]);
});

test("messages wait for their line, and for a kernel that takes them", () => {
  answered("one", "a", 2, 90);
  answered("other", "b");
  assert.deepEqual([courseHub().hears("one"), heard("one")], [false, [{lock: "a", ...GUESS}]]);
  courseHub().connect("other", () => assert.fail()); // a kernel that was stopped
  assert.deepEqual(heard("other"), [{skip: "b"}]);
});

test("a page asks the kernel what it knows, and tells it what only the browser knows", () => {
  kept.set(STORE, JSON.stringify({a: GUESS, b: SKIPPED, c: {...GUESS, saved: true}}));
  const pages = ["a", "b", "c", "d"].map((key) => told({key, line: "one"}));
  assert.deepEqual(heard("one"), [{lock: "a", ...GUESS}, {skip: "b"}, {known: ["c"]}, {known: ["d"]}]);
  courseHub().spread({records: {d: GUESS}});
  assert.deepEqual(pages, [[], [], [], [GUESS]]); // the others wait for the reply
  assert.deepEqual(told({key: "d", line: "one"}), [GUESS]); // a page that is shown later
  assert.deepEqual(told({key: "e", line: "one", record: GUESS}), [GUESS]); // Python wrote it into the page
});

test("where no kernel hears, the browser's answer counts after a while", (t) => {
  t.mock.timers.enable({apis: ["setTimeout"]});
  kept.set(STORE, JSON.stringify({a: GUESS}));
  heard("one");
  const alone = told({key: "a", line: "gone"}), connected = told({key: "a", line: "one"});
  t.mock.timers.tick(LATE - 1);
  assert.deepEqual(alone, []);
  t.mock.timers.tick(1);
  assert.deepEqual([alone, connected], [[GUESS], []]);
});

test("on Colab a reply of the kernel reaches all outputs by a channel", async () => {
  const sent = /** @type {News[]} */ ([]), news = {records: {a: {...GUESS, when: "today"}}};
  const channel = {
    postMessage: (/** @type {News} */ one) => sent.push(one),
    onmessage: /** @type {function(object): void} */ (() => {}),
  };
  Object.assign(globalThis, {BroadcastChannel: function () {
    return channel;
  }});
  const invokeFunction = async (/** @type {string} */ name, /** @type {Message[]} */ messages) => {
    assert.deepEqual([name, messages], ["snnkit.course", [{known: ["a"]}]]);
    return {data: {"application/json": news}};
  };
  globalThis.google = {colab: {kernel: {invokeFunction}}};
  const page = told({key: "a", line: "snnkit.course"}), other = told({key: "b"});
  await new Promise(setImmediate);
  assert.deepEqual([page, sent], [[news.records.a], [news]]);
  channel.onmessage({data: {records: {b: GUESS}}}); // from another output
  assert.deepEqual([other, sent.length], [[GUESS], 1]);
});
