import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AttachState, type Device, DiskRegistryServiceDefinition, Health } from "@diskmesh/api/registry";
import { allPages, type Client, createClient } from "@diskmesh/rpc";
import { ensureTablet } from "@diskmesh/tablet/testing";
import { eventually, freePort, spawnService, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { bareCommitRate } from "./floors.js";
import { compared, drainRatePerSecond, type Measurement, measurement, ratePerSecond } from "./measure.js";
import { type NoopServer, startNoopServer } from "./noop.js";
import { OrderCountingAgent } from "./order-counting-agent.js";

const RPC_LOAD = { concurrency: 64, durationMs: 2_000, warmupMs: 1_000 };
const ROUNDS = 3;
const ADD_ROUNDS = 9;
/** Rounds before measuring: a call takes a third longer until its code is compiled. */
const ADD_WARM_UP_ROUNDS = 2;
const ADD_HOSTS = 16;
/** Devices per host, enough for long rounds. Other work of the machine would affect rounds of half a second. */
const ADD_DEVICES_PER_HOST = 2_048;
const ADD_CONCURRENCY = 64;
/** Maximum devices of one host. */
const ORDER_DEVICES = 4_096;
const SETTLE_MS = 1_000;
/** Hosts whose devices lie on a single file, and on a file each. */
const [ONE_FILE, MANY_FILES] = ["one-file", "many-files"];
/** Maximum time in ms for comparing the ranges of one host's devices, because other hosts' calls wait meanwhile. */
const MAX_COMPARING_MS = 100;

type Registry = Client<typeof DiskRegistryServiceDefinition>;

/** Measures the registry process alone: reads, CMS actions and attach orders. */
export async function benchRegistry(report: (line: string) => void): Promise<Measurement[]> {
  const folder = temporaryFolder();
  const addHostIds = Array.from({ length: ADD_HOSTS }, (_, index) => `add-${index}`);
  const certificates = await testCertificates({ hostIds: [...addHostIds, "order", "read", ONE_FILE, MANY_FILES] });
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const operator = certificates.files("operator");
  const storage = join(folder, "registry");
  await ensureTablet({ storage, name: "registry" });
  await using _process = await spawnService({
    name: "disk-registry",
    mainFile: join(repositoryFolder, "services/disk-registry/dist/main.js"),
    config: {
      listen: { host: "127.0.0.1", port },
      tls: certificates.files("disk-registry"),
      tablet: { storage },
      // Long timeout, because agents of an ended part fall silent, and their silence would add commits to the next
      // part.
      heartbeat: { intervalMs: 2_000, timeoutMs: 1_800_000, missedUntilSuspected: 900 },
      log: { level: "error" },
    },
    folder,
    health: { address, tls: operator, serverRole: "disk-registry" },
  });
  await using noop = await startNoopServer(certificates.files("disk-registry"), operator);
  const registry = createClient(DiskRegistryServiceDefinition, {
    address,
    tls: operator,
    serverRole: "disk-registry",
    defaultDeadlineMs: 60_000,
  });
  const agent = (hostId: string) => new OrderCountingAgent(hostId, certificates.files(`disk-agent-${hostId}`), address);
  try {
    report("reads of the registry beside a bare no-op");
    const reads = await benchReads(registry, noop, agent("read"));
    report(`the attach order for ${ORDER_DEVICES} devices`);
    const order = await benchAttachOrder(registry, agent("order"), storage);
    report(`AddDevice of ${ADD_HOSTS * ADD_DEVICES_PER_HOST} devices beside bare commits`);
    const adds = await benchAddDevice(registry, addHostIds.map(agent), noop, join(folder, "bare"));
    report(`AddHost with ${ORDER_DEVICES} devices on one file beside a file each`);
    const shared = await benchOneFile(registry, agent(ONE_FILE), agent(MANY_FILES));
    return [reads, ...order, ...adds, shared];
  } finally {
    registry.close();
  }
}

async function benchReads(registry: Registry, noop: NoopServer, agent: OrderCountingAgent): Promise<Measurement> {
  await using reading = agent;
  const [deviceId = ""] = await reading.register(4, Health.ERROR);
  const [value, floor] = await compared(
    ROUNDS,
    () => ratePerSecond(RPC_LOAD, () => registry.getDevice({ deviceId })),
    () => ratePerSecond(RPC_LOAD, () => noop.call()),
  );
  const floorOf = "bare grpc-js no-op over mutual TLS";
  return measurement({ name: "read_rpc_rate", value, unit: "calls/s", floor, floorOf, budget: { atLeast: 0.8 } });
}

async function benchAttachOrder(
  registry: Registry,
  agent: OrderCountingAgent,
  storage: string,
): Promise<Measurement[]> {
  await using ordered = agent;
  // Uses devices in ERROR. The registry attaches them like others but does not erase them, and erases would add
  // commits.
  await ordered.register(ORDER_DEVICES, Health.ERROR);
  // Waits for the order of the registration, and for the commit of its confirmation.
  await untilAll(registry, "let go", ({ detachConfirmed }) => detachConfirmed);
  const commitsBefore = commitsOf(storage);
  await registry.addHost({ hostId: "order" });
  await untilAll(registry, "ATTACHED", ({ attachState }) => attachState === AttachState.ATTACHED);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  // One of the commits belongs to the CMS action.
  const commits = commitsOf(storage) - commitsBefore;
  const common = { unit: `for ${ORDER_DEVICES} devices`, budget: { atMost: 1 } };
  return [
    measurement({ ...common, name: "attach_order_rpcs", value: ordered.attachOrders, floor: 1, floorOf: "one order" }),
    measurement({ ...common, name: "attach_order_commits", value: commits, floor: 2, floorOf: "intent and outcome" }),
  ];
}

/** Measures dry runs, which do all work of an action except the commit. */
async function benchOneFile(
  registry: Registry,
  one: OrderCountingAgent,
  many: OrderCountingAgent,
): Promise<Measurement> {
  await using oneFile = one;
  await using manyFiles = many;
  const identities = Array.from({ length: ORDER_DEVICES }, (_, index) => `boot file ${index + 1}`);
  await oneFile.register(ORDER_DEVICES, Health.ERROR, ["boot file 0"]);
  await manyFiles.register(ORDER_DEVICES, Health.ERROR, identities);
  const tookMs = async (hostId: string): Promise<number> => {
    const startedMs = performance.now();
    await registry.addHost({ hostId, dryRun: true });
    return performance.now() - startedMs;
  };
  const [onOneMs, onManyMs] = await compared(
    ADD_ROUNDS,
    () => tookMs(ONE_FILE),
    () => tookMs(MANY_FILES),
  );
  return measurement({
    name: "add_host_one_file",
    value: Math.max(0, onOneMs - onManyMs),
    unit: `ms more for ${ORDER_DEVICES} devices`,
    floor: MAX_COMPARING_MS,
    floorOf: "the most that is allowed",
    budget: { atMost: 1 },
  });
}

/** Waits until all devices of the ordered host satisfy the condition. */
async function untilAll(registry: Registry, what: string, isSo: (device: Device) => boolean): Promise<void> {
  const count = async (): Promise<number> => {
    const devices = await allPages(async (pageToken) => {
      const page = await registry.listDevices({ hostId: "order", pageSize: 1_000, pageToken });
      return { items: page.devices, nextPageToken: page.nextPageToken };
    });
    return devices.filter(isSo).length;
  };
  await eventually(
    async () => {
      const found = await count();
      if (found < ORDER_DEVICES) throw new Error(`${found} of ${ORDER_DEVICES} devices are ${what}`);
    },
    { timeoutMs: 120_000, everyMs: 200 },
  );
}

async function benchAddDevice(
  registry: Registry,
  agents: readonly OrderCountingAgent[],
  noop: NoopServer,
  bareFolder: string,
): Promise<Measurement[]> {
  const named = await Promise.all(
    agents.map(async (agent, index) => {
      const deviceIds = await agent.register(ADD_DEVICES_PER_HOST, Health.ERROR);
      return deviceIds.map((deviceId) => ({ hostId: `add-${index}`, deviceId }));
    }),
  );
  // Alternates between hosts, as several operators would.
  const requests = Array.from({ length: ADD_DEVICES_PER_HOST }, (_, device) =>
    named.map((host) => host[device]),
  ).flat();
  // Alternates with the floors, so that a temporary slowdown of the machine affects both.
  const roundsInAll = ADD_WARM_UP_ROUNDS + ADD_ROUNDS;
  const perRound = Math.floor(requests.length / roundsInAll);
  const rounds: Measurement[] = [];
  try {
    for (let round = 0; round < roundsInAll; round++) {
      const batch = requests.slice(round * perRound, (round + 1) * perRound);
      const commitRate = await bareCommitRate(join(bareFolder, String(round)));
      const noopRate = await ratePerSecond({ ...RPC_LOAD, concurrency: ADD_CONCURRENCY }, () => noop.call());
      const value = await drainRatePerSecond({ concurrency: ADD_CONCURRENCY, count: batch.length }, async (index) => {
        const request = batch[index];
        if (request !== undefined) await registry.addDevice(request);
      });
      rounds.push(
        measurement({
          name: "add_device_rate",
          value,
          unit: "calls/s",
          floor: Math.min(noopRate, ADD_CONCURRENCY * commitRate),
          floorOf: `min(no-op ${noopRate.toFixed(0)}/s, ${ADD_CONCURRENCY} x bare commit ${commitRate.toFixed(0)}/s)`,
          budget: { atLeast: 0.4 },
        }),
      );
    }
    const sorted = rounds.slice(ADD_WARM_UP_ROUNDS).sort((a, b) => a.ratio - b.ratio);
    const [slowest, middle] = [sorted[0], sorted[Math.floor(ADD_ROUNDS / 2)]] as [Measurement, Measurement];
    return [middle, { ...slowest, name: "add_device_rate_slowest", budget: { atLeast: 0.33 } }];
  } finally {
    await Promise.all(agents.map((agent) => agent[Symbol.asyncDispose]()));
  }
}

/** Returns the number of commits in the storage: each is a line of a journal, after its header line. */
function commitsOf(storage: string): number {
  const folder = join(storage, "registry");
  let commits = 0;
  for (const name of readdirSync(folder).filter((each) => each.startsWith("journal.")))
    commits += readFileSync(join(folder, name), "latin1").split("\n").length - 2;
  return commits;
}
