import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort, spawnService, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { cpuTimeMs, type Measurement, measurement } from "./measure.js";
import { startNoopServer } from "./noop.js";
import type { StormCommand, StormOptions, StormResult } from "./storm-agents.js";
import { countOnline, DEVICES_PER_AGENT, storeFleet } from "./storm-fleet.js";

/** Number of agent processes. No more than can run at once, because each process compiles the same code. */
const PROCESSES = 2;
const LIMIT_MS = 10_000;
const LIMIT_AGENTS = 10_000;
/** Size in bytes of the answer to a registration with this many devices. */
const RESPONSE_BYTES = 1_050;

interface Measured extends StormResult {
  /** CPU time of the measured process per agent, in ms. */
  readonly cpuMs: number;
}

/** Measures the registration of all agents of a large fleet at once: over open connections, then over new ones. */
export async function benchStorm(
  report: (line: string) => void,
  { agents }: { agents: number },
): Promise<Measurement[]> {
  const folder = temporaryFolder();
  const certificates = await testCertificates();
  const files = certificates.files("disk-registry");
  const operator = certificates.files("operator");
  const storage = join(folder, "registry");
  report(`a fleet of ${agents} hosts with ${DEVICES_PER_AGENT} devices each`);
  const { tabletId, incarnation } = await storeFleet(storage, agents);
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  await using registry = await spawnService({
    name: "disk-registry",
    mainFile: join(repositoryFolder, "services/disk-registry/dist/main.js"),
    config: {
      listen: { host: "127.0.0.1", port },
      tls: files,
      tablet: { storage },
      // Long timeout, because preparing the storm takes longer than the default.
      heartbeat: { intervalMs: 2_000, timeoutMs: 1_800_000, missedUntilSuspected: 900 },
      // All hosts connect from one address.
      rpc: { maxConnectionsPerAddress: 2 * agents + 100 },
      log: { level: "error" },
    },
    folder,
    health: { address, tls: operator, serverRole: "disk-registry" },
    startTimeoutMs: 120_000,
  });
  await using noop = await startNoopServer(files, operator, RESPONSE_BYTES);
  const addresses = { registryAddress: address, noopAddress: noop.address };
  const options = {
    devicesPerAgent: DEVICES_PER_AGENT,
    certificatesFolder: certificates.folder,
    tabletId,
    incarnation,
  };
  await using storm = new Storm(agents, { ...options, ...addresses }, report);
  await storm.prepare("certify", "their certificates");
  await storm.prepare("connect", "their connections to the registry");
  const standing = await storm.measure("register", "all register at once, over connections that stand", registry.pid);
  const onlineAfterStanding = await countOnline(address, operator, "boot-1");
  report(`  ${onlineAfterStanding} of ${agents} are ONLINE`);
  await storm.prepare("disconnect", "these connections end");
  const connected = await storm.measure(
    "call-noop",
    "all connect to the server that does nothing, and call it",
    noop.pid,
  );
  await storm.prepare("disconnect", "these connections end");
  const fresh = await storm.measure("register", "all connect and register at once", registry.pid);
  const onlineAfterFresh = await countOnline(address, operator, "boot-2");
  report(`  ${onlineAfterFresh} of ${agents} are ONLINE`);
  return [
    ...standingMeasurements(agents, standing, onlineAfterStanding),
    ...freshMeasurements(agents, fresh, connected, onlineAfterFresh),
  ];
}

function standingMeasurements(agents: number, standing: Measured, online: number): Measurement[] {
  return [
    measurement({
      name: "storm_standing_p99",
      value: percentile(standing, 0.99),
      floor: LIMIT_MS,
      floorOf: "the most that is allowed",
      unit: "ms",
      budget: { atMost: 1 },
    }),
    // CPU time without waiting: a loaded machine makes storms slower, but does not change this value.
    measurement({
      name: "storm_standing_cpu",
      value: standing.cpuMs,
      unit: "ms/agent",
      floor: LIMIT_MS / LIMIT_AGENTS,
      floorOf: `one processor's share when ${LIMIT_AGENTS} keep to the limit`,
      budget: { atMost: 1 },
    }),
    ...counts("storm_standing", agents, standing, online),
  ];
}

function freshMeasurements(agents: number, fresh: Measured, connected: Measured, online: number): Measurement[] {
  return [
    // The floor has the same clients, because these take most of the time.
    measurement({
      name: "storm_handshakes_p99_beside_noop",
      value: percentile(fresh, 0.99),
      floor: percentile(connected, 0.99),
      floorOf: "new connections to a bare grpc-js no-op, all at once",
      unit: "ms",
      budget: { atMost: 1.5 },
    }),
    ...counts("storm_handshakes", agents, fresh, online),
  ];
}

function counts(name: string, agents: number, { timeouts }: Measured, online: number): Measurement[] {
  return [
    measurement({
      name: `${name}_online`,
      value: online,
      floor: agents,
      floorOf: "all",
      unit: "hosts",
      budget: { atLeast: 1 },
    }),
    // The floor is a constant that only gives the result a ratio; the budget allows no timeout.
    measurement({
      name: `${name}_timeouts`,
      value: timeouts,
      floor: 1,
      floorOf: "one",
      unit: "calls",
      budget: { atMost: 0 },
    }),
  ];
}

function summary(measured: Measured): string {
  const [median, late, last] = [0.5, 0.99, 1].map((part) => `${(percentile(measured, part) / 1000).toFixed(1)} s`);
  const { refused, timeouts, cpuMs } = measured;
  return (
    `  half after ${median}, 99 of 100 after ${late}, all after ${last}; ${refused} refused and tried again, ` +
    `${timeouts} timed out; ${cpuMs.toFixed(2)} ms of the server's processor time for each`
  );
}

function percentile({ latenciesMs }: StormResult, part: number): number {
  const sorted = [...latenciesMs].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

/** Agents in several processes, so that they wait for the registry more than for each other. */
class Storm implements AsyncDisposable {
  readonly #processes: ChildProcess[];

  constructor(
    agents: number,
    options: Omit<StormOptions, "first" | "count">,
    private readonly report: (line: string) => void,
  ) {
    const file = fileURLToPath(new URL("./storm-agents.js", import.meta.url));
    const share = Math.ceil(agents / PROCESSES);
    this.#processes = Array.from({ length: PROCESSES }, (_, index) => {
      const first = index * share;
      const own: StormOptions = { ...options, first, count: Math.max(0, Math.min(share, agents - first)) };
      return fork(file, [JSON.stringify(own)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    });
  }

  /** Prepares a storm in all processes. */
  async prepare(command: StormCommand, text: string): Promise<void> {
    this.report(text);
    const startedAtMs = performance.now();
    await this.#run(command);
    this.report(`  ready after ${((performance.now() - startedAtMs) / 1000).toFixed(0)} s`);
  }

  /** Runs a storm in all processes at once. Returns its results and the measured process's CPU time. */
  async measure(command: StormCommand, text: string, pid: number): Promise<Measured> {
    this.report(text);
    const before = cpuTimeMs(pid);
    const result = await this.#run(command);
    const cpuMs = (cpuTimeMs(pid) - before) / result.latenciesMs.length;
    const measured = { ...result, cpuMs };
    this.report(summary(measured));
    return measured;
  }

  async #run(command: StormCommand): Promise<StormResult> {
    const results = await Promise.all(
      this.#processes.map(async (child) => {
        const answer = once(child, "message");
        const died = once(child, "exit").then(() => [{ error: "a process of the storm ended" }]);
        child.send(command);
        const [result] = (await Promise.race([answer, died])) as [StormResult | { error: string }];
        if ("error" in result) throw new Error(`storm, ${command}: ${result.error}`);
        return result;
      }),
    );
    return {
      latenciesMs: results.flatMap((result) => result.latenciesMs),
      timeouts: results.reduce((sum, result) => sum + result.timeouts, 0),
      refused: results.reduce((sum, result) => sum + result.refused, 0),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#processes) child.kill("SIGKILL");
  }
}
