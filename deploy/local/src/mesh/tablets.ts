import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { InvalidStateError } from "@diskmesh/domain";
import { type MeshLayout, programFile, STATEFUL_SERVICES, type StatefulService } from "./layout.js";

const TIMEOUT_MS = 60_000;

/** Makes the tablets of a new mesh. */
export async function makeTablets(layout: MeshLayout, signal: AbortSignal): Promise<void> {
  await Promise.all(STATEFUL_SERVICES.map((service) => makeTablet(layout, service, signal)));
}

async function makeTablet(layout: MeshLayout, service: StatefulService, signal: AbortSignal): Promise<void> {
  const { storage, name } = layout.tablet(service);
  if (existsSync(join(storage, name))) return;
  const [file, ...args] = initProgram(service);
  const config = ["--config", layout.configFile(service)];
  await promisify(execFile)(file, [...args, ...config], { signal, timeout: TIMEOUT_MS }).catch((error: unknown) => {
    signal.throwIfAborted();
    const { stderr, message } = error as Error & { readonly stderr?: string };
    throw new InvalidStateError(`the tablet of the ${service}: ${stderr?.trim() || message}`, { cause: error });
  });
}

function initProgram(service: StatefulService): [file: string, ...args: string[]] {
  const release = process.env.DISKMESH_RELEASE;
  if (release !== undefined) return [resolve(release, "bin/diskmesh"), "init", service];
  return [process.execPath, programFile(service, "init")];
}
