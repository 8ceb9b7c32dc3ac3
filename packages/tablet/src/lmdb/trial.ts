import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const CHILD = fileURLToPath(new URL("./read-everything.js", import.meta.url));
/** Of what the child says: enough for LMDB's last words. */
const OUTPUT_LENGTH_MAX = 500;
const TIMEOUT_MS = 10 * 60_000;

/**
 * Reads all of a data file in a process of its own, writes to it if it has that format, and throws when that fails: LMDB
 * trusts its pages, so that a damaged one may end the process that meets it by a signal, without a word.
 */
export async function tryInOtherProcess(folder: string, format: string): Promise<void> {
  const child = spawn(process.execPath, [CHILD, folder, format], {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: TIMEOUT_MS,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output = `${output}${chunk}`.slice(-OUTPUT_LENGTH_MAX);
    });
  }
  const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  if (code === 0) return;
  const said = output.trim().replace(/\s+/g, " ");
  throw new Error(`data.mdb is damaged: reading it ended with ${signal ?? `exit code ${code}`}${said && `: ${said}`}`);
}
