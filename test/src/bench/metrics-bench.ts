import { join } from "node:path";
import { DiskRegistryServiceDefinition, Health } from "@diskmesh/api/registry";
import { createClient } from "@diskmesh/rpc";
import { freePort, spawnService, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { compared, cpuTimeMs, drainRatePerSecond, type Measurement, measurement } from "./measure.js";
import { OrderCountingAgent } from "./order-counting-agent.js";

const READS = { concurrency: 64, count: 20_000 };
const ROUNDS = 5;
/** Maximum devices of one host. */
const DEVICES_PER_HOST = 4_096;
const HOSTS = 25;
const SCRAPES = 21;
const MAX_SCRAPE_MS = 50;

/** Measures the cost of metrics for a registry: reads with and without metrics, and a scrape with 100,000 devices. */
export async function benchMetrics(report: (line: string) => void): Promise<Measurement[]> {
  await using withMetrics = await BenchedRegistry.start("measured");
  await using without = await BenchedRegistry.start("plain");
  report("reads of a registry with metrics beside one without");
  const [reads, plain] = [await withMetrics.reads(), await without.reads()];
  // Warms up until V8 has compiled the code of both variants.
  await Promise.all([reads(), plain()]);
  const [value, floor] = await compared(ROUNDS, reads, plain);
  const floorOf = "the same without metrics";
  const cost = {
    name: "read_rpc_rate_with_metrics",
    value,
    unit: "calls/cpu-s",
    floor,
    floorOf,
    budget: { atLeast: 0.95 },
  };
  report(`a scrape with ${HOSTS * DEVICES_PER_HOST} devices`);
  await withMetrics.fill();
  const took = await withMetrics.scrapeMs();
  const budget = { atMost: 1 };
  return [
    measurement(cost),
    measurement({ name: "scrape", value: took, unit: "ms", floor: MAX_SCRAPE_MS, floorOf: "the most allowed", budget }),
  ];
}

class BenchedRegistry implements AsyncDisposable {
  private constructor(
    private readonly address: string,
    private readonly metricsPort: number,
    private readonly process: AsyncDisposable & { readonly pid: number },
    private readonly certificates: Awaited<ReturnType<typeof testCertificates>>,
    private readonly agents: OrderCountingAgent[] = [],
  ) {}

  static async start(name: "measured" | "plain"): Promise<BenchedRegistry> {
    const hostIds = ["one-plain", ...Array.from({ length: HOSTS }, (_, index) => `host-${index}`)];
    const certificates = await testCertificates({ hostIds });
    const [port, metricsPort, folder] = [await freePort(), await freePort(), temporaryFolder()];
    const address = `127.0.0.1:${port}`;
    const health = { address, tls: certificates.files("operator"), serverRole: "disk-registry" } as const;
    const config = {
      listen: { host: "127.0.0.1", port },
      tls: certificates.files("disk-registry"),
      tablet: { storage: join(folder, "state") },
      heartbeat: { intervalMs: 5_000, timeoutMs: 3_600_000, missedUntilSuspected: 700 },
      log: { level: "error" },
      ...(name === "measured" ? { metrics: { listen: { port: metricsPort } } } : {}),
    };
    const mainFile = join(repositoryFolder, "services/disk-registry/dist/main.js");
    const process = await spawnService({ name, mainFile, config, folder, health });
    return new BenchedRegistry(address, metricsPort, process, certificates);
  }

  /**
   * Registers a host. Returns a function that reads one of its devices many times, and returns the reads per second of
   * the registry's CPU time.
   */
  async reads(): Promise<() => Promise<number>> {
    const tls = {
      tls: this.certificates.files("operator"),
      serverRole: "disk-registry",
      defaultDeadlineMs: 60_000,
    } as const;
    const client = createClient(DiskRegistryServiceDefinition, { address: this.address, ...tls });
    const [deviceId = ""] = await this.#register("one-plain", 4);
    return async () => {
      const beforeMs = cpuTimeMs(this.process.pid);
      await drainRatePerSecond(READS, () => client.getDevice({ deviceId }));
      return (READS.count / (cpuTimeMs(this.process.pid) - beforeMs)) * 1_000;
    };
  }

  async fill(): Promise<void> {
    for (let index = 0; index < HOSTS; index++) await this.#register(`host-${index}`, DEVICES_PER_HOST);
  }

  /** Returns the median duration of many scrapes. */
  async scrapeMs(): Promise<number> {
    const took: number[] = [];
    for (let index = 0; index < SCRAPES; index++) {
      const startedMs = performance.now();
      const text = await (await fetch(`http://127.0.0.1:${this.metricsPort}/metrics`)).text();
      took.push(performance.now() - startedMs);
      const told = /^diskmesh_devices\{state="UNKNOWN",health="ERROR"\} (\d+)$/m.exec(text)?.[1];
      if (Number(told) < HOSTS * DEVICES_PER_HOST) throw new Error(`the registry tells of ${told} devices`);
    }
    return took.sort((a, b) => a - b)[Math.floor(SCRAPES / 2)] ?? 0;
  }

  async #register(hostId: string, devices: number): Promise<readonly string[]> {
    const agent = new OrderCountingAgent(hostId, this.certificates.files(`disk-agent-${hostId}`), this.address);
    this.agents.push(agent);
    return agent.register(devices, Health.ERROR);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const agent of this.agents) await agent[Symbol.asyncDispose]();
    await this.process[Symbol.asyncDispose]();
  }
}
