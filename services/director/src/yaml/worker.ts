import { parentPort } from "node:worker_threads";
import { InvalidArgumentError } from "@diskmesh/domain";
import { type Reading, readNow } from "./formats.js";

/** The worker's answer to a Reading. JSON text costs the director's event loop less to receive than objects. */
export type WorkerAnswer = { readonly json: string } | { readonly refused: string };

parentPort?.on("message", (reading: Reading) => parentPort?.postMessage(answer(reading)));

function answer(reading: Reading): WorkerAnswer {
  try {
    return { json: JSON.stringify(readNow(reading)) };
  } catch (error) {
    if (error instanceof InvalidArgumentError) return { refused: error.message };
    throw error;
  }
}
