import { runCommandLine } from "./command-line.js";

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
// Whoever reads it has read enough.
process.stdout.on("error", () => process.exit(0));

process.exitCode = await runCommandLine(process.argv.slice(2), {
  out: process.stdout,
  err: process.stderr,
  environment: process.env,
  workingFolder: process.cwd(),
  signal: stop.signal,
});
