const REDRAW_EVERY_MS = 1000;
const PLAIN_LINE_EVERY_MS = 15_000;

/** True when lines may be redrawn. False on CI, which keeps every line. */
const isInteractive = Boolean(process.stderr.isTTY) && process.env.CI === undefined;

/**
 * Runs `work` and prints its duration on a line of standard error, because standard output belongs to the command.
 * Prints nothing when `work` ends within `quietMs`.
 */
export async function step(title, work, { quietMs = 0 } = {}) {
  const startedMs = performance.now();
  const seconds = () => ((performance.now() - startedMs) / 1000).toFixed(1);
  let shown = false;
  const show = () => {
    if (isInteractive) process.stderr.write(`\r\x1b[2K${title} ... ${seconds()} s`);
    else process.stderr.write(shown ? `${title} ... still at it after ${seconds()} s\n` : `${title} ...\n`);
    shown = true;
  };
  if (quietMs === 0) show();
  const first = quietMs > 0 ? setTimeout(show, quietMs) : undefined;
  const timer = setInterval(show, isInteractive ? REDRAW_EVERY_MS : PLAIN_LINE_EVERY_MS);
  try {
    const result = await work();
    if (shown) finish(`${title}: done in ${seconds()} s`);
    return result;
  } catch (error) {
    finish(`${title}: failed after ${seconds()} s`);
    throw error;
  } finally {
    clearTimeout(first);
    clearInterval(timer);
  }
}

function finish(line) {
  process.stderr.write(isInteractive ? `\r\x1b[2K${line}\n` : `${line}\n`);
}
