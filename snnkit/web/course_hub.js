// What the pages of a course have in common, wherever in a notebook they are: news, and the lines to kernels.

/**
 * The hub of this document, one for all pages: `say(line, message)` to a kernel, `spread(news)` to all pages,
 * `listen(receive)` for news, `connect(line, send)` for whoever carries a line. Colab's outputs are documents of their own.
 */
export function courseHub() {
  if (globalThis.snnkitCourse) return globalThis.snnkitCourse;
  const listeners = [], lines = {}, waiting = [], colab = globalThis.google?.colab?.kernel;
  const channel = colab && new BroadcastChannel("snnkit.course");
  const receive = (news) => listeners.forEach((listener) => listener(news));
  const hub = {
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

/** Keeps a scorecard, which is HTML of the kernel, as it is there now. */
export function scorecardPage(place, {notebook}) {
  courseHub().listen(({scorecards}) => {
    if (scorecards?.[notebook]) place.innerHTML = scorecards[notebook];
  });
}
