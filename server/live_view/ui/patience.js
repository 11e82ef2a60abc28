// Asking again when the server says so: a full queue, a limit of requests per minute, a model that is still loading.

const TRIES_MAX = 8;
const WAIT_MAX_S = 60; // who is told to come back later than this is told so, and decides
const TICK_MS = 250;

// Resolves after `seconds`, or when `hurry` is called; rejects when the signal says stop. `onTick(seconds left, hurry)`.
function wait(seconds, signal, onTick) {
  return new Promise((resolve, reject) => {
    const until = performance.now() + 1000 * seconds;
    const end = (settle, value) => {
      clearInterval(timer);
      signal?.removeEventListener("abort", stop);
      settle(value);
    };
    const hurry = () => end(resolve);
    const stop = () => end(reject, signal.reason);
    const tick = () => {
      const left = until - performance.now();
      left <= 0 ? hurry() : onTick(Math.ceil(left / 1000), hurry);
    };
    const timer = setInterval(tick, TICK_MS);
    signal?.addEventListener("abort", stop);
    signal?.aborted ? stop() : tick();
  });
}

export const pause = (milliseconds, signal) => wait(milliseconds / 1000, signal, () => {});

// What `ask` resolves to. Where it fails with an error that has `retry_after` (seconds), it is asked again after that time and up
// to a second more, so that pages that were turned away together do not come back together. `onWait(error, seconds left, hurry)`
// is called while it waits, `onWait(null)` when it has asked again.
export async function patiently(ask, { signal, onWait }) {
  for (let tries = 1; ; ++tries) {
    try {
      return await ask();
    } catch (error) {
      const after_s = error.retry_after ?? Infinity;
      if (after_s > WAIT_MAX_S || tries === TRIES_MAX) throw error;
      await wait(after_s + Math.random(), signal, (left, hurry) => onWait(error, left, hurry));
      onWait(null);
    }
  }
}
