// What the type checker does not know of the pages.

import type {Hub, Message, News} from "./course_hub.js";

declare global {
  var snnkitCourse: Hub | undefined; // one for all pages of a document
  var google: {colab?: {kernel?: ColabKernel}} | undefined; // on Colab

  interface ColabKernel {
    invokeFunction(name: string, args: Message[], kwargs: {}): Promise<{data: {"application/json": News}}>;
  }

  interface Element {
    setAttribute(name: string, value: string | number | boolean): void; // the page writes it as text
  }
}
