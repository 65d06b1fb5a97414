/** The first minute in the playground: hints, each of which goes when the reader has done what it says. */

import {calm} from "./canvas.js";
import {button, make} from "./controls.js";

/**
 * @typedef {{text: string, at: function(): ?Element, done: function(): (string|false|null|undefined)}} Hint what to do,
 *   where, and what came of it once it is done
 */

const SEEN = "snnkit.playground.hints";

/** Whether hints were closed in this tab before; without storage (a page in a frame) they were not. */
function seen() {
  try {
    return sessionStorage.getItem(SEEN) !== null;
  } catch {
    return false;
  }
}

export class Guide {
  /** @param {HTMLElement} element which is hidden as long as there is no hint @param {Hint[]} hints @param {string} end */
  constructor(element, hints, end) {
    this.element = element;
    this.hints = hints;
    this.end = end;
    this.index = -1;
    /** @type {?Element} */ this.marked = null;
    this.outcome = make("span", {className: "outcome"});
    this.count = make("span", {className: "muted"});
    this.text = make("span");
    this.find = button({label: "Show me where", press: () => this.lead()});
    this.skip = button({label: "Skip", hint: "the next hint", press: () => this.show(this.index + 1, "")});
    this.quit = button({label: "No more hints", press: () => this.close()});
    for (const one of [this.find, this.skip, this.quit]) one.classList.add("quiet");
    const line = make("p", {role: "status"}, this.outcome, " ", this.count, " ", this.text);
    element.replaceChildren(line, make("span", {className: "row"}, this.find, this.skip, this.quit));
  }

  /** From the first hint, unless the reader has closed them before. */
  begin() {
    if (!seen()) this.show(0, "");
  }

  /** @param {number} index @param {string} outcome of the hint before */
  show(index, outcome) {
    const {hints} = this, hint = hints[index];
    if (index > hints.length) return;
    this.index = index;
    this.element.hidden = false;
    this.outcome.textContent = outcome && `✓ ${outcome}`;
    this.count.textContent = hint ? `${index + 1} of ${hints.length}` : "";
    this.text.textContent = hint?.text ?? this.end;
    this.find.hidden = this.skip.hidden = !hint;
    this.quit.textContent = hint ? "No more hints" : "Close";
    if (!hint) this.remember();
    this.mark(hint?.at() ?? null);
  }

  /** Look whether the hint was followed; controls may be others than before. */
  check() {
    const hint = this.hints[this.index];
    if (!hint) return;
    const outcome = hint.done();
    if (outcome) this.show(this.index + 1, outcome);
    else this.mark(hint.at());
  }

  /** @param {?Element} place */
  mark(place) {
    if (place === this.marked) return;
    this.marked?.classList.remove("hinted");
    place?.classList.add("hinted");
    this.marked = place;
  }

  /** To the place that the hint is about. */
  lead() {
    const place = /** @type {?HTMLElement} */ (this.marked);
    if (!place) return;
    place.scrollIntoView({block: "center", behavior: calm() ? "auto" : "smooth"});
    const handle = /** @type {?HTMLElement} */ (place.matches("button, canvas") ? place : place.querySelector("[type=range]"));
    handle?.focus({preventScroll: true});
  }

  close() {
    if (this.index < 0) return;
    this.index = -1;
    this.element.hidden = true;
    this.mark(null);
    this.remember();
  }

  remember() {
    try {
      sessionStorage.setItem(SEEN, "closed");
    } catch { /* then they come again */ }
  }
}
