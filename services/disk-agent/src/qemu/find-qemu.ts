import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { PROGRAM } from "./daemon.js";

const VERSION_TIMEOUT_MS = 10_000;

/**
 * Decides whether storage daemons carry the bytes, and logs which engine runs. Throws UnavailableError when the config
 * requires them and the program is missing.
 */
export async function findQemu(engine: "auto" | "node" | "qemu", log: Logger): Promise<boolean> {
  if (engine === "node") {
    log.info({ engine: "node" }, "data path engine chosen");
    return false;
  }
  try {
    const { stdout } = await promisify(execFile)(PROGRAM, ["--version"], { timeout: VERSION_TIMEOUT_MS });
    log.info({ engine: "qemu", version: stdout.split("\n")[0] }, "data path engine chosen");
    return true;
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
    const reason = isMissing ? `${PROGRAM} is not on PATH` : `${PROGRAM} does not run: ${messageOf(error)}`;
    if (engine === "qemu")
      throw new UnavailableError(`engine is "qemu", but ${reason}: install it (Debian: qemu-system-common)`, {
        cause: error,
      });
    log.info({ engine: "node", reason }, "data path engine chosen; qemu-system-common has the faster one");
    return false;
  }
}
