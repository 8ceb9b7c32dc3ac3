import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { LockServiceDefinition } from "@diskmesh/api/director";
import { DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { messageOf } from "@diskmesh/domain";
import { AgentClient, connectNats } from "@diskmesh/mbus";
import { createClient, type ServiceDefinition, type TlsFiles } from "@diskmesh/rpc";
import type { BystanderWork, TooLate, Waited, Watched } from "./bystanders.js";
import { NOOP } from "./noop.js";
import { waitedForTurnsMs } from "./watched-processes.js";

const EVERY_MS = 50;
const TRY_MS = 5_000;
const RETRY_MS = 20;
const REPORT_MS = 1_000;
const READ_BYTES = 4_096;

type Ask = () => Promise<unknown>;

/** A client that sends a request, waits for the answer however long it takes, and repeats. */
class Asker {
  calls = 0;
  worstMs = 0;
  worstNetMs = 0;
  error = "";
  #sinceMs: number | undefined;
  #turnsWaitedMs = 0;
  /** Recently ended waits, which other clients compare with their own. */
  readonly #lately: { readonly fromMs: number; readonly toMs: number }[] = [];

  constructor(
    readonly name: string,
    private readonly ask: Ask,
    private readonly pid: number,
    private readonly control: Asker | undefined,
    private readonly onWaited: (asker: Asker, waitedMs: number, netMs: number) => void,
  ) {}

  async run(): Promise<never> {
    for (;;) {
      await this.once();
      await sleep(EVERY_MS);
    }
  }

  async once(): Promise<void> {
    this.error = "";
    this.#sinceMs = performance.now();
    this.#turnsWaitedMs = waitedForTurnsMs(this.pid);
    for (;;) {
      try {
        await this.ask();
        break;
      } catch (error) {
        this.error = messageOf(error);
        await sleep(RETRY_MS);
      }
    }
    this.look();
    this.#lately.push({ fromMs: this.#sinceMs, toMs: performance.now() });
    if (this.#lately.length > 1_000) this.#lately.splice(0, 500);
    this.#sinceMs = undefined;
    this.calls++;
  }

  /** Records the wait so far, ended or not. */
  look(): void {
    if (this.#sinceMs === undefined) return;
    const waitedMs = performance.now() - this.#sinceMs;
    const controlMs = this.control?.longestSince(this.#sinceMs) ?? 0;
    const netMs = Math.max(0, waitedMs - Math.max(controlMs, waitedForTurnsMs(this.pid) - this.#turnsWaitedMs));
    this.worstMs = Math.max(this.worstMs, waitedMs);
    this.worstNetMs = Math.max(this.worstNetMs, netMs);
    this.onWaited(this, waitedMs, netMs);
  }

  /** Returns the longest wait that lies at least partly after that time. */
  longestSince(fromMs: number): number {
    const nowMs = performance.now();
    const ended = this.#lately.filter(({ toMs }) => toMs >= fromMs).map(({ fromMs: began, toMs }) => toMs - began);
    return Math.max(0, ...ended, this.#sinceMs === undefined ? 0 : nowMs - this.#sinceMs);
  }
}

const work = workerData as BystanderWork;
const told = new Set<string>();
let started = false;

function tell(asker: Asker, waitedMs: number, netMs: number): void {
  if (!started || netMs < work.limitMs || told.has(asker.name)) return;
  // Reports each client once, because the run ends after the first report.
  told.add(asker.name);
  const late: TooLate = { name: asker.name, waitedMs, netMs, error: asker.error };
  parentPort?.postMessage({ late });
}

function grpc<Definition extends ServiceDefinition>(
  definition: Definition,
  { address, target, serverName }: Watched & { kind: "grpc" },
) {
  const options = { address, tls: work.tls, serverRole: target, defaultDeadlineMs: TRY_MS };
  return createClient(definition, { ...options, ...(serverName !== undefined && { serverName }) });
}

/** Returns a cheap request that goes through the whole service. */
async function askerOf(watched: Watched): Promise<Ask> {
  switch (watched.kind) {
    case "grpc":
      return grpcAsker(watched);
    case "nbd": {
      let client: NbdClient | undefined;
      return async () => {
        client ??= await NbdClient.connect({ socketPath: watched.socketPath });
        await client.read(0, READ_BYTES).catch((error: unknown) => {
          client = undefined;
          throw error;
        });
      };
    }
    case "mbus": {
      const nats = await connectNats({ servers: [watched.address], tls: watched.tls, name: "bystander" });
      await nats.whenConnected(AbortSignal.timeout(30_000));
      const limits = { requestTimeoutMs: TRY_MS, callTimeoutMs: TRY_MS, taskPollIntervalMs: 20 };
      const agents = new AgentClient({ nats, directorId: "bystander", ...limits });
      return () => agents.call(watched.hostId, "ping", []);
    }
    case "http":
      return async () => {
        const url = `http://127.0.0.1:${watched.port}/instances/none/settings`;
        const response = await fetch(url, { signal: AbortSignal.timeout(TRY_MS) });
        await response.arrayBuffer();
      };
  }
}

function grpcAsker(watched: Watched & { kind: "grpc" }): Ask {
  switch (watched.target) {
    case "director": {
      const client = grpc(LockServiceDefinition, watched);
      return () => client.listLocks({});
    }
    case "cpi-dispatcher": {
      const client = grpc(CpiServiceDefinition, watched);
      return () => client.listCpis({});
    }
    case "disk-registry": {
      const client = grpc(DiskRegistryServiceDefinition, watched);
      return () => client.getHost({ hostId: "host-1" });
    }
    case "disk-agent": {
      const client = grpc(DiskAgentServiceDefinition, watched);
      return () => client.listDevices({});
    }
  }
}

function controlAsk({ address, tls }: { address: string; tls: TlsFiles }): Ask {
  const client = createClient(NOOP, { address, tls, serverRole: "disk-registry", defaultDeadlineMs: TRY_MS });
  return () => client.call(Buffer.alloc(16));
}

const control = new Asker("control", controlAsk(work.control), work.control.pid, undefined, () => {});
const askers = await Promise.all(
  work.watched.map(async (watched) => new Asker(watched.name, await askerOf(watched), watched.pid, control, tell)),
);
// The first call opens the connection, whose duration is not measured.
await Promise.all([control, ...askers].map((asker) => asker.once()));
started = true;
for (const asker of [control, ...askers]) {
  asker.worstMs = 0;
  asker.worstNetMs = 0;
  void asker.run();
}
parentPort?.postMessage("ready");
setInterval(() => {
  for (const asker of askers) asker.look();
  const waits: Waited[] = [control, ...askers].map(({ name, calls, worstMs, worstNetMs }) => ({
    name,
    calls,
    worstMs,
    worstNetMs,
  }));
  parentPort?.postMessage({ waits });
}, REPORT_MS);
