import { always, type Fault, LENGTHS_MS, must } from "./fault.js";

/** SIGSTOP to a process, and SIGCONT after a while: it has slept, and knows nothing of it. */
export const stop: Fault = {
  name: "stop",
  lengthMs: LENGTHS_MS.pause,
  possible: always,
  targets: (mesh) => [...mesh.supervised.keys(), "nats", ...(mesh.store.database ? ["database"] : [])],
  async begin(mesh, target) {
    if (target === "nats") return pause(mesh.nats);
    if (target === "database") return pause(must(mesh.store.database, target));
    return pause(must(mesh.supervised.get(target), target).process);
  },
};

function pause(process: { readonly pid: number; signal(signal: NodeJS.Signals): void }): () => void {
  const { pid } = process;
  process.signal("SIGSTOP");
  // It may have been killed and started again meanwhile: another process then, which was not stopped.
  return () => {
    if (process.pid === pid) process.signal("SIGCONT");
  };
}
