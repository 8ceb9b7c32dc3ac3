import { parentPort, workerData } from "node:worker_threads";
import { InvalidArgumentError } from "@diskmesh/domain";
import { type Reading, readNow } from "./formats.js";

/** What the thread says, once. JSON costs the director's own thread less to take over than objects do. */
export type WorkerAnswer = { readonly json: string } | { readonly refused: string };

parentPort?.postMessage(answer(workerData as Reading));

function answer(reading: Reading): WorkerAnswer {
  try {
    return { json: JSON.stringify(readNow(reading)) };
  } catch (error) {
    if (error instanceof InvalidArgumentError) return { refused: error.message };
    throw error;
  }
}
