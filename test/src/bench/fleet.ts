import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type DiskRegistryServiceDefinition, HostState } from "@diskmesh/api/registry";
import { allPages, type Client } from "@diskmesh/rpc";
import { TestMesh } from "../mesh/test-mesh.js";
import type { FleetAgentsOptions, FleetCommand } from "./fleet-agents.js";
import { type Bench, corePercent, cpuTimeMs, type Round } from "./measure.js";
import { deviceIdOf, storeFleet } from "./stored-fleet.js";

const REGISTRY = "disk-registry";
const IDLE_HOSTS = 1_000;
const IDLE_MS = 30_000;
const STORM_HOSTS = 2_000;
/** Processes of agents: no more than can run at once, because each compiles the same code. */
const PROCESSES = 2;
const PROBE_EVERY_MS = 50;
const SETTLE_MS = 5_000;
const DEADLINE_MS = 120_000;

/** A registry, and agents without devices that are connected to it. */
interface Fleet extends AsyncDisposable {
  readonly pid: number;
  readonly registry: Client<typeof DiskRegistryServiceDefinition>;
  /** Has all agents register at once, as after a restart of their machines. Afterwards they send heartbeats. */
  register(): Promise<void>;
  /** Returns the number of hosts that are ONLINE since the last `register`. */
  online(): Promise<number>;
}

/** Measures a registry of 1,000 hosts of 16 devices that only send heartbeats. */
export async function startIdle(report: (line: string) => void): Promise<Bench> {
  const fleet = await startFleet(IDLE_HOSTS, report);
  await fleet.register();
  await sleep(SETTLE_MS);
  return {
    warmUpRounds: 1,
    rounds: 3,
    round: async () => ({
      idle_registry_cpu: { value: await corePercent(fleet.pid, () => sleep(IDLE_MS)), unit: "% of a core" },
    }),
    [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose](),
  };
}

/** Measures a registry at which 2,000 agents register at once, and the other calls meanwhile. */
export async function startStorm(report: (line: string) => void): Promise<Bench> {
  const fleet = await startFleet(STORM_HOSTS, report);
  return {
    warmUpRounds: 1,
    rounds: 3,
    round: () => stormRound(fleet),
    [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose](),
  };
}

async function stormRound(fleet: Fleet): Promise<Round> {
  let [slowestMs, isOver] = [0, false];
  const timed = async (call: () => Promise<unknown>): Promise<void> => {
    const startedMs = performance.now();
    await call();
    slowestMs = Math.max(slowestMs, performance.now() - startedMs);
  };
  const probing = async (): Promise<void> => {
    for (let count = 0; !isOver; count++) {
      await timed(() => fleet.registry.getDevice({ deviceId: deviceIdOf(count % STORM_HOSTS, 0) }));
      await timed(() => fleet.registry.createDisk({ diskId: `probe-${randomUUID()}`, sizeBytes: 1, az: "z1" }));
      await sleep(PROBE_EVERY_MS);
    }
  };
  let [tookMs, cpuMs] = [performance.now(), cpuTimeMs(fleet.pid)];
  const storm = async (): Promise<void> => {
    await fleet.register();
    [tookMs, cpuMs] = [performance.now() - tookMs, cpuTimeMs(fleet.pid) - cpuMs];
    isOver = true;
  };
  await Promise.all([storm(), probing()]);
  const online = await fleet.online();
  await sleep(SETTLE_MS);
  return {
    storm_online: { value: online, unit: `of ${STORM_HOSTS} hosts` },
    storm_took: { value: tookMs / 1_000, unit: "s" },
    storm_slowest_other: { value: slowestMs / 1_000, unit: "s" },
    storm_cpu: { value: cpuMs / STORM_HOSTS, unit: "ms/agent" },
  };
}

async function startFleet(hosts: number, report: (line: string) => void): Promise<Fleet> {
  report(`a fleet of ${hosts} hosts`);
  let stored = { tabletId: "", incarnation: "" };
  const mesh = await TestMesh.start({
    processes: [{ service: REGISTRY, config: configOf(hosts) }],
    deadlineMs: DEADLINE_MS,
    prepare: async (placed) => {
      stored = await storeFleet(placed.dataFolder(REGISTRY), hosts);
      return undefined;
    },
  });
  const { registry } = mesh.clients;
  const common = { certificatesFolder: mesh.certificates.folder, registryAddress: mesh.address(REGISTRY), ...stored };
  const share = Math.ceil(hosts / PROCESSES);
  const agents = Array.from({ length: PROCESSES }, (_, index) => {
    const first = index * share;
    return agentsOf({ ...common, first, count: Math.min(share, hosts - first) });
  });
  const all = (command: FleetCommand) => Promise.all(agents.map((child) => run(child, command)));
  let boot = 0;
  const fleet: Fleet = {
    pid: mesh.process(REGISTRY).pid,
    registry,
    register: async () => {
      boot++;
      await all("register");
    },
    online: async () => {
      const found = await allPages(async (pageToken) => {
        const page = await registry.listHosts({ pageSize: 1_000, pageToken });
        return { items: page.hosts, nextPageToken: page.nextPageToken };
      });
      return found.filter(({ state, bootId }) => state === HostState.ONLINE && bootId === `boot-${boot}`).length;
    },
    [Symbol.asyncDispose]: async () => {
      for (const child of agents) child.kill("SIGKILL");
      await mesh[Symbol.asyncDispose]();
    },
  };
  report("connecting their agents");
  await all("connect").catch(async (error: unknown) => {
    await fleet[Symbol.asyncDispose]();
    throw error;
  });
  return fleet;
}

const configOf = (hosts: number): object => ({
  // Long timeout, because the first agents wait until the last are connected.
  heartbeat: { timeoutMs: 600_000, missedUntilSuspected: 250 },
  // All hosts connect from one address.
  rpc: { maxConnectionsPerAddress: 2 * hosts + 100 },
});

function agentsOf(options: FleetAgentsOptions): ChildProcess {
  const file = fileURLToPath(new URL("./fleet-agents.js", import.meta.url));
  return fork(file, [JSON.stringify(options)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
}

async function run(child: ChildProcess, command: FleetCommand): Promise<void> {
  child.send(command);
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`a process of agents ended with ${code} during ${command}`);
  });
  ended.catch(() => {});
  await Promise.race([once(child, "message"), ended]);
}
