import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createServer, type TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { DiskRegistryServiceService, HostState } from "@diskmesh/api/registry";
import { createClient, type TlsFiles } from "@diskmesh/rpc";
import { openStorage, Tablet, table } from "@diskmesh/tablet";
import { freePort, spawnService, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { type Measurement, measurement } from "./measure.js";
import { type StormCommand, type StormOptions, type StormResult, stormDeviceId, stormHostId } from "./storm-agents.js";

/** Fewer for trying the benchmark itself. */
const AGENTS = Number(process.env.DISKMESH_BENCH_AGENTS ?? 10_000);
const DEVICES_PER_AGENT = 16;
const PROCESSES = 4;
const LIMIT_MS = 10_000;
const HOSTS_PER_TRANSACTION = 200;

interface StoredDocument {
  readonly id: string;
  readonly document: object;
}

/** Every agent of a large fleet registers at the same moment: over connections that stand, then over new ones. */
export async function benchStorm(report: (line: string) => void): Promise<Measurement[]> {
  const folder = temporaryFolder();
  const certificates = await testCertificates();
  const storage = join(folder, "registry");
  report(`a fleet of ${AGENTS} hosts with ${DEVICES_PER_AGENT} devices each`);
  const tabletId = await storeFleet(storage);
  const [port, barePort] = [await freePort(), await freePort()];
  const address = `127.0.0.1:${port}`;
  const operatorFiles = certificates.files("operator");
  await using registry = await spawnService({
    name: "disk-registry",
    mainFile: join(repositoryFolder, "services/disk-registry/dist/main.js"),
    config: {
      listen: { host: "127.0.0.1", port },
      tls: certificates.files("disk-registry"),
      tablet: { storage },
      // Setting the storm up takes longer than any host may be silent.
      heartbeat: { intervalMs: 2_000, timeoutMs: 1_800_000 },
      // Each refused agent comes again and costs another call: in a fleet of this size most had better wait.
      rpc: { maxConcurrentCalls: 5_000 },
      log: { level: "error" },
    },
    folder,
    health: { address, tls: operatorFiles, serverRole: "disk-registry" },
    startTimeoutMs: 120_000,
  });
  await using _bare = await startBareServer(certificates.files("disk-registry"), barePort);
  const common = { devicesPerAgent: DEVICES_PER_AGENT, certificatesFolder: certificates.folder, tabletId };
  const addresses = { registryAddress: address, bareAddress: `127.0.0.1:${barePort}` };
  await using storm = new Storm({ ...common, ...addresses });
  report("their certificates");
  await storm.run("certify");
  report("their connections");
  await storm.run("connect");
  report("all register at once, over connections that stand");
  const cpuBeforeMs = cpuTimeMs(registry.pid);
  const standing = await storm.run("register");
  const cpuMs = (cpuTimeMs(registry.pid) - cpuBeforeMs) / AGENTS;
  report(summary(standing));
  await requireAllOnline(address, operatorFiles, "boot-1");
  await storm.run("disconnect");
  report("bare handshakes, all at once");
  const handshakes = await storm.run("handshakes");
  report(summary(handshakes));
  report("all connect and register at once");
  const fresh = await storm.run("register");
  await requireAllOnline(address, operatorFiles, "boot-2");
  report(summary(fresh));
  const unit = "ms";
  const limit = { floor: LIMIT_MS, floorOf: "the most that is allowed", unit, budget: { atMost: 1 } };
  return [
    measurement({ name: "storm_standing_p99", value: percentile(standing, 0.99), ...limit }),
    // What is left of the time when nothing else runs: a loaded machine makes every storm slower, but not this.
    measurement({
      name: "storm_standing_cpu",
      value: cpuMs,
      floor: LIMIT_MS / AGENTS,
      floorOf: "one processor's share within the limit",
      unit: "ms/agent",
      budget: { atMost: 1 },
    }),
    // Of the floor, so that a ratio can be given: one call that times out is one too many.
    measurement({
      name: "storm_standing_timeouts",
      value: standing.timeouts,
      floor: 1,
      floorOf: "one",
      unit: "calls",
      budget: { atMost: 0 },
    }),
    measurement({
      name: "storm_handshakes_p99",
      value: percentile(fresh, 0.99),
      floor: percentile(handshakes, 0.99),
      floorOf: "bare handshakes, all at once",
      unit,
      budget: undefined,
    }),
  ];
}

function summary(result: StormResult): string {
  const [median, late, last] = [0.5, 0.99, 1].map((part) => `${(percentile(result, part) / 1000).toFixed(1)} s`);
  return `half after ${median}, 99 of 100 after ${late}, all after ${last}; ${result.refused} refused and tried again, ${result.timeouts} timed out`;
}

/** Of all threads of a process, from the kernel's count in hundredths of a second. */
function cpuTimeMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function percentile({ latenciesMs }: StormResult, part: number): number {
  const sorted = [...latenciesMs].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

/** Several processes, so that the agents do not wait for each other more than for the registry. */
class Storm implements AsyncDisposable {
  readonly #processes: ChildProcess[];

  constructor(options: Omit<StormOptions, "first" | "count">) {
    const file = fileURLToPath(new URL("./storm-agents.js", import.meta.url));
    const share = Math.ceil(AGENTS / PROCESSES);
    this.#processes = Array.from({ length: PROCESSES }, (_, index) => {
      const first = index * share;
      const own: StormOptions = { ...options, first, count: Math.max(0, Math.min(share, AGENTS - first)) };
      return fork(file, [JSON.stringify(own)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    });
  }

  async run(command: StormCommand): Promise<StormResult> {
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

/** The registry's state as it is when all these hosts have been in operation for long: nothing is left to be done. */
async function storeFleet(storage: string): Promise<string> {
  const byId = () => table<StoredDocument>({ key: ({ id }) => id });
  // Written as the registry keeps them, but for the key, which the storage keeps apart.
  const schema = { hosts: byId(), devices: byId(), disks: byId(), counters: byId() };
  const tablet = await Tablet.open({
    name: "registry",
    schema,
    storage: openStorage(storage, "registry"),
    address: "",
  });
  try {
    for (let first = 0; first < AGENTS; first += HOSTS_PER_TRANSACTION) {
      await tablet.transact((tx) => {
        for (let index = first; index < Math.min(AGENTS, first + HOSTS_PER_TRANSACTION); index++) {
          tx.hosts.put({ id: stormHostId(index), ...storedHost(index) } as never);
          for (let device = 0; device < DEVICES_PER_AGENT; device++)
            tx.devices.put({ id: stormDeviceId(index, device), ...storedDevice(index, device) } as never);
        }
        tx.counters.put({
          id: "device_generation",
          name: "device_generation",
          value: AGENTS * DEVICES_PER_AGENT,
        } as never);
      });
    }
    return tablet.id;
  } finally {
    await tablet.close();
  }
}

function storedHost(index: number): object {
  return {
    hostId: stormHostId(index),
    address: "127.0.0.1:1",
    az: "z1",
    rack: `rack-${index % 100}`,
    state: "ONLINE",
    stateMessage: "",
    stateChangedAtMs: 0,
    bootId: "before",
    removalRequested: false,
    createdAtMs: 0,
  };
}

function storedDevice(index: number, device: number): object {
  return {
    deviceId: stormDeviceId(index, device),
    hostId: stormHostId(index),
    path: `/dev/disk/by-id/nvme-${device}`,
    offsetBytes: 0,
    sizeBytes: 64 * 1024 * 1024,
    blockSizeBytes: 4096,
    serialNumber: `serial-${index}-${device}`,
    pool: "default",
    health: "ONLINE",
    healthMessage: "",
    attachState: "ATTACHED",
    generation: index * DEVICES_PER_AGENT + device + 1,
    attempts: 0,
    lastError: "",
    dirty: false,
    removalRequested: false,
    detachConfirmed: false,
    diskId: "",
    eraseSessionNumber: 0,
    stateChangedAtMs: 0,
  };
}

async function requireAllOnline(address: string, tls: TlsFiles, bootId: string): Promise<void> {
  const registry = createClient(DiskRegistryServiceService, {
    address,
    tls,
    serverRole: "disk-registry",
    defaultDeadlineMs: 30_000,
  });
  try {
    let online = 0;
    for (let pageToken = ""; ; ) {
      const page = await registry.listHosts({ az: "", vmCid: "", pageSize: 1_000, pageToken });
      online += page.hosts.filter((host) => host.state === HostState.ONLINE && host.bootId === bootId).length;
      pageToken = page.nextPageToken;
      if (pageToken === "") break;
    }
    if (online !== AGENTS) throw new Error(`${online} of ${AGENTS} hosts are ONLINE as ${bootId}`);
  } finally {
    registry.close();
  }
}

/** Handshakes with client certificates and nothing else, in a process of its own as the registry is. */
async function startBareServer(tls: TlsFiles, port: number): Promise<AsyncDisposable> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(tls), String(port)], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const died = once(child, "exit").then(() => Promise.reject(new Error("the bare server ended")));
  await Promise.race([once(child, "message"), died]);
  died.catch(() => {});
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
    },
  };
}

function serveBare(tls: TlsFiles, port: number): void {
  const [ca, cert, key] = [tls.caFile, tls.certFile, tls.keyFile].map((file) => readFileSync(file));
  const options = { ca, cert, key, requestCert: true, rejectUnauthorized: true };
  const server = createServer(options as object, (socket: TLSSocket) => {
    socket.on("error", () => {});
    socket.end("x");
  });
  server.listen(port, "127.0.0.1", 4_096, () => process.send?.("listening"));
  process.once("disconnect", () => process.exit(0));
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url))
  serveBare(JSON.parse(process.argv[2] ?? ""), Number(process.argv[3]));
