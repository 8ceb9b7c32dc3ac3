import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { whyRefused } from "@diskmesh/mbus";

const TIMEOUT_MS = 10_000;

/** Throws when the `nats-server` on PATH is too old. A missing program fails when it is started. */
export async function checkNatsServer(): Promise<void> {
  const refused = whyRefused((await versionOf("nats-server")) ?? "");
  if (refused !== undefined) throw new InvalidStateError(refused);
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
