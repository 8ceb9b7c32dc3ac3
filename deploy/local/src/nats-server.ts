import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { whyOutdated, whyRefused } from "@diskmesh/mbus";

const TIMEOUT_MS = 10_000;

/**
 * Throws when the `nats-server` on PATH has a hole that our configuration leaves open. Returns what is to be said of one
 * that should be replaced; undefined when there is nothing, or no nats-server, which its start finds out.
 */
export async function checkNatsServer(): Promise<string | undefined> {
  const version = await versionOf("nats-server");
  if (version === undefined) return undefined;
  const refused = whyRefused(version);
  if (refused !== undefined) throw new InvalidStateError(refused);
  return whyOutdated(version);
}

async function versionOf(file: string): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)(file, ["--version"], { timeout: TIMEOUT_MS });
    return /^nats-server: v?(\S+)/m.exec(stdout)?.[1] ?? "";
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new InvalidStateError(`nats-server cannot be run: ${messageOf(error)}`, { cause: error });
  }
}
