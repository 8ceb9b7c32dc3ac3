type Cleanup = () => void;

const cleanups = new Set<Cleanup>();

process.once("exit", () => {
  // Last registered first: processes end before the folders that they use are removed.
  for (const cleanup of [...cleanups].reverse()) cleanup();
});

// Without a handler these end the process with no "exit" event, and what it started would stay.
for (const [signal, code] of [
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const)
  process.once(signal, () => process.exit(code));

/** Has something undone when this process exits, however that comes about short of SIGKILL. Returns how to forget it. */
export function onExit(cleanup: Cleanup): () => void {
  cleanups.add(cleanup);
  return () => cleanups.delete(cleanup);
}
