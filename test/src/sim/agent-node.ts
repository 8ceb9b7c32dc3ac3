import { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import {
  AGENT_LIMITS,
  type AgentContext,
  type AgentEdges,
  type AgentLimits,
  addServices,
  configSchema,
  type ListenNbd,
  registerWithRegistry,
  startHolding,
  UNCOUNTED,
  watchDevices,
} from "@diskmesh/disk-agent/simulation";
import { type Identity, messageOf, silentLogger } from "@diskmesh/domain";
import { Lifecycle } from "@diskmesh/service";
import { BLOCK_BYTES, type Machine } from "./machine.js";
import type { AgentRun, DevicePlace, Served, World } from "./parts.js";
import { REGISTRY_ADDRESS } from "./registry-node.js";
import { SimProcess } from "./seed/timeline.js";
import { SimServer } from "./sim-server.js";

const NO_IO = { totals: () => ({ reads: 0, readBytes: 0, writes: 0, writtenBytes: 0 }), diskIo: () => UNCOUNTED };

/** Readiness without effect, because a simulated agent serves no health checks. */
const NOBODY_ASKS = { met: () => {}, missing: () => {}, report: () => ({ needs: new Map(), alerts: new Map() }) };

/** Path of the cache; each machine has its own file system. */
export const CACHE_FILE = "/sim/agent-cache.json";
const MARK_FILE = "/sim/agent-has-run";

/** Port at which an agent serves its devices to holders on other hosts. */
const HOLDERS_PORT = 7041;

const agentAddress = (host: string): string => `${host}:7040`;

const tls = { caFile: "unused", certFile: "unused", keyFile: "unused" };

function configOf(host: string, devices: readonly DevicePlace[]) {
  return configSchema.parse({
    hostId: host,
    az: "z1",
    listen: { host: "127.0.0.1", port: 0 },
    advertisedAddress: agentAddress(host),
    tls,
    registry: { address: REGISTRY_ADDRESS },
    baseFolder: `/sim/${host}`,
    devices: devices.map(({ deviceId, path, firstBlock, blockCount }) => ({
      deviceId,
      path,
      offsetBytes: firstBlock * BLOCK_BYTES,
      sizeBytes: blockCount * BLOCK_BYTES,
      blockSizeBytes: BLOCK_BYTES,
    })),
    remoteIoTimeoutMs: 6_000,
  });
}

const LIMITS: AgentLimits = {
  ...AGENT_LIMITS,
  orderTimeoutMs: 400,
  startOpenTimeoutMs: 800,
  drainTimeoutMs: 500,
  registerTimeoutMs: 3_000,
  heartbeatTimeoutMs: 1_500,
  registration: { minDelayMs: 50, maxDelayMs: 1_000 },
  eraseChunkBytes: BLOCK_BYTES,
  linkChunkBytes: BLOCK_BYTES,
  copy: { chunkBytes: BLOCK_BYTES, maxInFlight: 1, flushEveryBytes: BLOCK_BYTES },
  maxInFlightIoPerDevice: 4,
};

/** Returns the limits with a few chunks for each slice, so that drives with slices do not take many more steps. */
function limitsOf({ smallestBlocks }: World): AgentLimits {
  const chunkBytes = BLOCK_BYTES * Math.ceil(smallestBlocks / 4);
  return { ...LIMITS, eraseChunkBytes: chunkBytes, copy: { ...LIMITS.copy, chunkBytes } };
}

const configs = new Map<string, ReturnType<typeof configOf>>();

/** Returns the host's config from a cache, because parsing a config takes a considerable part of a run. */
function cachedConfigOf(host: string, devices: readonly DevicePlace[]): ReturnType<typeof configOf> {
  const key = JSON.stringify([host, devices]);
  let config = configs.get(key);
  if (config === undefined) {
    config = configOf(host, devices);
    configs.set(key, config);
  }
  return config;
}

export class AgentNode implements AgentRun {
  readonly process: SimProcess;
  context: AgentContext | undefined;
  startedAtMs = Number.POSITIVE_INFINITY;
  readonly mustAsk: boolean;
  readonly served = new Map<string, Served>();
  readonly #lifecycle: Lifecycle;

  constructor(
    private readonly world: World,
    readonly machine: Machine,
    private readonly configured: readonly DevicePlace[],
    run: number,
    forgot: boolean,
  ) {
    const { cache } = machine;
    this.mustAsk = cache.has(MARK_FILE) && (forgot || !cache.has(CACHE_FILE));
    this.process = new SimProcess(world.timeline, machine.host, `agent ${machine.host}#${run}`);
    this.#lifecycle = new Lifecycle(silentLogger);
    void this.#start(run);
  }

  /** Places of the devices, which follow their drives. */
  get devices(): readonly DevicePlace[] {
    const { context, configured } = this;
    const pathOf = ({ deviceId, path }: DevicePlace) => context?.devices.find(deviceId as never)?.config.path ?? path;
    if (configured.every((place) => pathOf(place) === place.path)) return configured;
    return configured.map((place) => ({ ...place, path: pathOf(place) }));
  }

  async #start(run: number): Promise<void> {
    const { world, process, machine } = this;
    const config = cachedConfigOf(machine.host, this.configured);
    const folders = {
      cacheFile: CACHE_FILE,
      markFile: MARK_FILE,
      exports: `${config.baseFolder}/exports`,
      driverStates: `${config.baseFolder}/driver-states`,
    };
    const edges = this.#edges(run);
    try {
      const context = await startHolding(this.#lifecycle, config, {
        folders,
        edges,
        limits: limitsOf(world),
        log: silentLogger,
      });
      this.context = context;
      this.startedAtMs = world.timeline.nowMs;
      world.agentStarted(this);
      const server = new SimServer(process);
      addServices(server, () => context);
      world.network.serve(agentAddress(machine.host), server);
      registerWithRegistry(this.#lifecycle, context, agentAddress(machine.host), {
        ...edges,
        io: NO_IO,
        readiness: NOBODY_ASKS,
      });
      watchDevices(this.#lifecycle, context, edges);
    } catch (error) {
      if (!process.alive) return;
      world.trace(`${process.name}: cannot start: ${messageOf(error)}`);
      world.endAgent(this, false);
    }
  }

  #edges(run: number): AgentEdges {
    const { world, process, machine } = this;
    const identity: Identity = { role: "disk-agent", name: machine.host };
    const options = { defaultDeadlineMs: 3_000 };
    return {
      clock: process,
      random: world.serviceRandom(),
      newBootId: () => `${machine.host}-run-${run}`,
      machineBootId: async () => `machine-${machine.host}-${machine.bootId}`,
      opener: machine.opener(process),
      cacheFiles: machine.cache.files(process),
      listenNbd: this.#listenNbd,
      mapper: undefined,
      whyNoBlockDevices: "the machine is simulated",
      endBlockDevices: async () => [],
      io: undefined,
      linkDevice: (target, signal) => world.network.links.open(process, target, signal),
      listenForHolders: async ({ access }) => {
        world.network.links.serve(`${machine.host}:${HOLDERS_PORT}`, process, access);
        return { port: HOLDERS_PORT, requireListening: () => {}, close: async () => {} };
      },
      connectRegistry: () =>
        world.network.client(AgentRegistrationServiceDefinition, { process, identity }, REGISTRY_ADDRESS, options),
    };
  }

  readonly #listenNbd: ListenNbd = async ({ served: { name, sizeBytes }, disk }) => {
    const served: Served = { diskId: name, disk, sizeBytes, closed: false };
    this.served.set(name, served);
    return {
      close: async () => {
        served.closed = true;
        if (this.served.get(name) === served) this.served.delete(name);
      },
      // Simulated exports have no sockets that could be removed.
      hasSocket: async () => true,
      restore: async () => false,
    };
  };

  /** Ends the process; nothing of it runs afterwards. */
  crash(powerLoss: boolean): void {
    if (!this.process.alive) return;
    this.process.alive = false;
    this.machine.crash(this.process, powerLoss);
    this.world.network.remove(this.process);
  }
}
