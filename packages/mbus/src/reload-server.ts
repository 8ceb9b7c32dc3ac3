import { readFile } from "node:fs/promises";
import { InvalidStateError } from "@diskmesh/domain";

/** Has the nats-server of a pid file, on this machine, read its configuration again. */
export async function reloadServer(pidFile: string): Promise<void> {
  const text = await readFile(pidFile, "utf8").catch(() => "");
  const pid = Number(text.trim());
  if (!Number.isInteger(pid) || pid <= 1)
    throw new InvalidStateError(`${pidFile} names no process: nats-server does not run`);
  // To most programs the signal is their end, and a pid that was left in the file may be anybody's by now.
  const program = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
  if (program.trim() !== "nats-server")
    throw new InvalidStateError(
      `process ${pid} of ${pidFile} is no nats-server: see that it runs, and writes that file`,
    );
  process.kill(pid, "SIGHUP");
}
