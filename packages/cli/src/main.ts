import { runCommandLine } from "./command-line.js";
import { EXIT_CODES } from "./output/exit-codes.js";

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // The reader of the output has closed the pipe.
  if (error.code === "EPIPE") process.exit(EXIT_CODES.done);
  // The request may have taken effect although its answer could not be written, e.g. on a full disk.
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

// Exits explicitly after all output, because a connection with a pending handshake keeps the process alive.
process.stdout.write("", (error) => {
  if (!error) process.stderr.write("", () => process.exit(exitCode));
});
