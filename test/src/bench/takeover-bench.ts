import { join } from "node:path";
import { DiskRegistryServiceDefinition, Health } from "@diskmesh/api/registry";
import { createClient } from "@diskmesh/rpc";
import {
  databaseUrl,
  documentDatabase,
  ensureTablet,
  newTabletName,
  removeTablet,
  withDatabase,
} from "@diskmesh/tablet/testing";
import {
  eventually,
  freePort,
  type ServiceProcess,
  spawnService,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { type Measurement, measurement } from "./measure.js";
import { OrderCountingAgent } from "./order-counting-agent.js";

const LEASE_TIME_MS = 5_000;
/** Time in ms that a takeover may take beyond the lease. */
const BEYOND_LEASE_MS = 2_000;
const HOST_IDS = ["h1", "h2", "h3", "h4", "h5", "h6"];
const DEVICES_PER_HOST = 1_700;
const PATIENCE = { timeoutMs: 120_000, everyMs: 100 };

interface Registry {
  readonly process: ServiceProcess;
  readonly address: string;
}

/**
 * Measures the time from SIGKILL of the leader of 10,200 devices until the standby answers a client that was connected
 * to the former leader.
 */
export async function benchTakeover(report: (line: string) => void): Promise<Measurement[]> {
  const database = await documentDatabase();
  if (typeof database === "string") {
    report(`NOT MEASURED: takeover_time, since ${database}`);
    return [];
  }
  report(`the takeover of a registry that was killed, in ${database.title}`);
  return [await takeover(databaseUrl(database.url), report)];
}

async function takeover(url: string, report: (line: string) => void): Promise<Measurement> {
  const certificates = await testCertificates({ hostIds: HOST_IDS });
  const tabletName = newTabletName();
  const start = (waitFor: "serving" | "listening") => startRegistry({ url, tabletName, certificates, waitFor });
  const leader = await start("serving");
  const standby = await start("listening");
  const operator = createClient(DiskRegistryServiceDefinition, {
    address: [leader.address, standby.address],
    tls: certificates.files("operator"),
    serverRole: "disk-registry",
    defaultDeadlineMs: 60_000,
  });
  const agents: OrderCountingAgent[] = [];
  try {
    for (const hostId of HOST_IDS) {
      const agent = new OrderCountingAgent(hostId, certificates.files(`disk-agent-${hostId}`), leader.address);
      agents.push(agent);
      const deviceIds = await agent.register(DEVICES_PER_HOST, Health.ERROR);
      const deviceId = deviceIds.at(-1) as string;
      await eventually(async () => (await operator.getDevice({ deviceId })).device?.detachConfirmed === true, PATIENCE);
    }
    await eventually(() => standby.process.logs.includes("standby caught up"), PATIENCE);
    if (standby.process.logs.includes("leadership gained"))
      throw new Error("the machine is too busy: the leader lost its lease before it was killed");
    await leader.process.kill();
    const killedMs = performance.now();
    await operator.listHosts({ pageSize: 1 });
    const value = performance.now() - killedMs;
    const { documentsRead } = JSON.parse(
      standby.process.logs.split("\n").findLast((line) => line.includes("leadership gained")) ?? "{}",
    );
    report(`the standby read ${documentsRead} documents and log entries after its claim`);
    const floor = LEASE_TIME_MS + (await bareReadMs(url, tabletName));
    return measurement({
      name: "takeover_time",
      value,
      unit: `ms with ${HOST_IDS.length * DEVICES_PER_HOST} devices`,
      floor,
      floorOf: "lease time and a bare read of the log's end",
      budget: { atMost: (LEASE_TIME_MS + BEYOND_LEASE_MS) / LEASE_TIME_MS },
    });
  } finally {
    operator.close();
    await Promise.all(agents.map((agent) => agent[Symbol.asyncDispose]()));
    for (const { process } of [leader, standby]) await process.kill();
    await removeTablet(url, tabletName);
  }
}

async function startRegistry(options: {
  readonly url: string;
  readonly tabletName: string;
  readonly certificates: TestCertificates;
  readonly waitFor: "serving" | "listening";
}): Promise<Registry> {
  const { url, tabletName, certificates, waitFor } = options;
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  await ensureTablet({ storage: url, name: tabletName });
  const process = await spawnService({
    name: `disk-registry-${waitFor}`,
    mainFile: join(repositoryFolder, "services/disk-registry/dist/main.js"),
    config: {
      listen: { host: "127.0.0.1", port },
      tls: certificates.files("disk-registry"),
      tablet: { storage: url, name: tabletName, leaseTimeMs: LEASE_TIME_MS },
    },
    folder: temporaryFolder(),
    health: { address, tls: certificates.files("operator"), serverRole: "disk-registry" },
    waitFor,
  });
  return { process, address };
}

async function bareReadMs(url: string, tabletName: string): Promise<number> {
  return withDatabase(url, async (database) => {
    const log = database.collection<{ _id: number }>(`${tabletName}.log`);
    const [last] = await log.find().sort({ _id: -1 }).limit(1).toArray();
    const startMs = performance.now();
    await log.find({ _id: { $gt: (last?._id ?? 1) - 1 } }).toArray();
    return performance.now() - startMs;
  });
}
