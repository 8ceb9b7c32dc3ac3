type Cleanup = () => void;

const cleanups = new Set<Cleanup>();

process.once("exit", () => {
  // Runs cleanups in reverse order of registration, so that processes end before their folders are removed.
  for (const cleanup of [...cleanups].reverse()) cleanup();
});

// Without a handler, these signals end the process without an "exit" event, and child processes would stay.
for (const [signal, code] of [
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const)
  process.once(signal, () => process.exit(code));

/** Runs `cleanup` when this process exits for any reason but SIGKILL. Returns a function that cancels it. */
export function onExit(cleanup: Cleanup): () => void {
  cleanups.add(cleanup);
  return () => cleanups.delete(cleanup);
}
