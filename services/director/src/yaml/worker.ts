import { parentPort, workerData } from "node:worker_threads";
import { InvalidArgumentError } from "@diskmesh/domain";
import { type Reading, readNow } from "./formats.js";
import { nameOfThisThread } from "./thread-time.js";

/**
 * What the thread says: which one it is, then what became of the text. JSON costs the director's own thread less to take
 * over than objects do.
 */
export type WorkerMessage = { readonly thread: string } | { readonly json: string } | { readonly refused: string };

parentPort?.postMessage({ thread: nameOfThisThread() } satisfies WorkerMessage);
parentPort?.postMessage(answer(workerData as Reading));

function answer(reading: Reading): WorkerMessage {
  try {
    return { json: JSON.stringify(readNow(reading)) };
  } catch (error) {
    if (error instanceof InvalidArgumentError) return { refused: error.message };
    throw error;
  }
}
