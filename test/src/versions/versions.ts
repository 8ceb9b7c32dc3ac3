import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { type ProcessPlan, programOf, type ServiceName } from "../mesh/plan.js";
import type { Store } from "../mesh/stores.js";
import { TestMesh } from "../mesh/test-mesh.js";

/** Silence timeout in ms, long compared with a start, so that a host whose agent is replaced does not count as lost. */
const SILENCE_MS = 60_000;
const LAST_LINES = 4;

const CONFIGS: Partial<Record<ServiceName, object>> = {
  "disk-registry": { heartbeat: { intervalMs: 500, timeoutMs: SILENCE_MS, missedUntilSuspected: 60 } },
};

/**
 * Two processes of each service and three agents, as in a fleet that is upgraded without interruption. In the order of
 * the upgrade: each after the processes that it calls.
 */
export const PROCESSES: readonly { readonly name: string; readonly service: ServiceName }[] = [
  ...(["disk-registry", "cpi-dispatcher", "director"] as const).flatMap((service) =>
    [1, 2].map((number) => ({ name: `${service}-${number}`, service })),
  ),
  ...["h1", "h2", "h3"].map((name) => ({ name, service: "disk-agent" as const })),
];

/** Folders of the programs, by version. */
export interface Versions {
  readonly last: (service: ServiceName) => string;
  readonly present: (service: ServiceName) => string;
}

export function versionsIn(lastReleaseFolder: string): Versions {
  return {
    last: (service) => join(lastReleaseFolder, "bundle", `${service}-main.js`),
    present: programOf,
  };
}

/** Starts all processes with the last release. */
export function startVersions(store: Store, { last }: Versions): Promise<TestMesh> {
  const processes = PROCESSES.map(
    (one): ProcessPlan => ({
      ...one,
      config: CONFIGS[one.service] ?? {},
      devices: { count: 3, sizeBytes: MIB_BYTES },
      // Either of the two may lead.
      waitFor: "listening",
      mainFile: last(one.service),
    }),
  );
  return TestMesh.start({ processes, tablet: store.tablet, deadlineMs: 60_000 });
}

/** Stops a process, and starts it as another version, as a supervisor does. */
export async function replace(mesh: TestMesh, name: string, service: ServiceName, mainFile: string): Promise<void> {
  const process = mesh.process(name);
  const { code, signal } = await process.stop();
  if (code !== 0) throw new Error(`${name} ended with ${signal ?? code} when it was told to stop`);
  process.mainFile = mainFile;
  await process.start();
  // Agents and dispatchers must be serving; an agent's exports are complete only once it is registered.
  if (service === "disk-agent" || service === "cpi-dispatcher") await process.waitFor("serving");
}

/** Returns the last log lines of each process, for the message of a failure. */
export function lastLines(mesh: TestMesh): string {
  const lines = (name: string) => mesh.process(name).logs.trimEnd().split("\n").slice(-LAST_LINES).join("\n");
  return PROCESSES.map(({ name }) => `${name}:\n${lines(name)}`).join("\n");
}
