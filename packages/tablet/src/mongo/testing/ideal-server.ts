import type { DocumentServer } from "../document-server.js";
import { SimulatedServer } from "../simulation/simulated-server.js";
import { SimulatedProcess, World } from "../simulation/world.js";

/** The simulated server in a world of its own, where nothing goes wrong and nothing takes time. */
export function idealServer(): DocumentServer {
  const never = { crash: 0, pause: 0, loss: 0, lateSend: 0, lateAnswer: 0, start: 0, stop: 0, outage: 0, tamper: 0 };
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
