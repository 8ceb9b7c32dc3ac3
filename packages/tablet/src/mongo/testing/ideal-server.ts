import type { DocumentServer } from "../document-server.js";
import { SimulatedServer } from "../simulation/simulated-server.js";
import { type Faults, SimulatedProcess, World } from "../simulation/world.js";

/** Returns the simulated server without faults or delays. */
export function idealServer(): DocumentServer {
  const kinds = [
    "crash",
    "pause",
    "loss",
    "lateSend",
    "lateAnswer",
    "start",
    "stop",
    "outage",
    "tamper",
    "refusal",
    "backup",
    "restore",
    "drop",
  ];
  const never = Object.fromEntries(kinds.map((kind) => [kind, 0])) as unknown as Faults;
  const process = new SimulatedProcess(new World(1, never));
  const answerAll = (): void => {
    for (const pending of [...process.pending]) pending.step();
    if (process.pending.length > 0) queueMicrotask(answerAll);
  };
  const wait = process.wait.bind(process);
  process.wait = (pending) => {
    wait(pending);
    queueMicrotask(answerAll);
  };
  return new SimulatedServer(process);
}
