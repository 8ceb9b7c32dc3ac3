import { runCommandLine } from "./command-line.js";
import { EXIT_CODES } from "./exit-codes.js";

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // The reader of the output has read enough.
  if (error.code === "EPIPE") process.exit(EXIT_CODES.done);
  // The request may be done although its answer could not be written: a full disk cuts a list off.
  process.stderr.write(`diskmesh: cannot write the answer: ${error.message}\n`);
  process.exit(EXIT_CODES.unknown);
});

const exitCode = await runCommandLine(process.argv.slice(2), {
  out: process.stdout,
  err: process.stderr,
  environment: process.env,
  workingFolder: process.cwd(),
  signal: stop.signal,
});

// A connection whose handshake is never answered keeps the process alive, so the process ends itself once all is written.
process.stdout.write("", (error) => {
  if (!error) process.stderr.write("", () => process.exit(exitCode));
});
