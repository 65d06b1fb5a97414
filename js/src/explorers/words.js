/**
 * Words in the text beside explorers that light up what they name there: <span class="show-threshold">threshold</span>.
 *
 * The class is all that JupyterLab, exported pages and the site leave of such a word. Where no explorer of the same
 * document knows its name (on Colab, where outputs are documents of their own), it stays plain text.
 */

import {calm} from "../canvas.js";

/**
 * @typedef {{place: HTMLElement, knows(name: string): boolean, light(name: ?string): void, control(name: string):
 *   ?HTMLElement}} Lamp an explorer; `control`: the handle of that name
 * @typedef {{word: HTMLElement, name: string}} Word
 */

const WORDS = '[class*="show-"]';

/**
 * Adds an explorer to those of the document, whichever scripts they come from.
 * @param {Lamp} lamp
 * @returns {function(): void} ends it
 */
export function listen(lamp) {
  const page = /** @type {{snnkitLamps?: ReturnType<typeof begin>}} */ (globalThis);
  const all = (page.snnkitLamps ??= begin());
  all.lamps.add(lamp);
  all.dress();
  return () => all.lamps.delete(lamp);
}

/** Colours the words of that name; null: no more. @param {string} name @param {boolean} on */
export function colour(name, on) {
  for (const word of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(`.show-${CSS.escape(name)}`))) {
    word.style.background = on ? "rgba(0, 114, 178, .25)" : "";
  }
}

function begin() {
  const lamps = /** @type {Set<Lamp>} */ (new Set());
  /** @type {?Lamp} */
  let lit = null;
  let dressed = 0;

  /** @param {?EventTarget|undefined} target @returns {?Word} */
  function wordAt(target) {
    const word = target instanceof Element ? /** @type {?HTMLElement} */ (target.closest(WORDS)) : null;
    const name = word && [...word.classList].find((one) => one.startsWith("show-"))?.slice(5);
    return word && name && !word.closest(".snn") ? {word, name} : null;
  }

  /** The explorer of that name that is nearest to the word on the page. @param {Word} found */
  function nearest({word, name}) {
    const {top, bottom} = word.getBoundingClientRect();
    /** @param {Lamp} lamp */
    const far = ({place}) => {
      const box = place.getBoundingClientRect();
      return Math.max(box.top - bottom, top - box.bottom, 0);
    };
    const known = [...lamps].filter((lamp) => lamp.place.isConnected && lamp.knows(name));
    return known.sort((a, b) => far(a) - far(b))[0] ?? null;
  }

  /** Only a word that does something looks like it. */
  function dress() {
    dressed = performance.now();
    for (const one of document.querySelectorAll(WORDS)) {
      const found = wordAt(one);
      if (!found || found.word.tabIndex === 0 || !nearest(found)) continue;
      const {word} = found;
      Object.assign(word, {tabIndex: 0, title: "shown in the explorer"});
      word.setAttribute("role", "button");
      word.setAttribute("data-lm-suppress-shortcuts", "true"); // Enter would edit the cell
      Object.assign(word.style, {textDecoration: "underline dotted", textUnderlineOffset: "3px", cursor: "pointer",
        borderRadius: "3px"});
    }
  }

  /** @param {Event} event */
  function look(event) {
    if (performance.now() - dressed > 1000) dress(); // a text may have been drawn again
    const found = wordAt(event.target) ?? wordAt(document.activeElement), lamp = found && nearest(found);
    if (lit && lit !== lamp) lit.light(null);
    lit = lamp;
    if (found) lamp?.light(found.name);
  }

  /** @param {Event} event */
  function go(event) {
    const found = wordAt(event.target), lamp = found && nearest(found);
    if (!lamp) return;
    event.preventDefault();
    lamp.place.scrollIntoView({block: "nearest", behavior: calm() ? "auto" : "smooth"});
    if (event.type === "keydown") lamp.control(found.name)?.focus({preventScroll: true});
  }

  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, look);
  document.addEventListener("click", go);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Tab") dress();
    else if (event.key === "Enter" || event.key === " ") go(event);
  });
  return {lamps, dress};
}
