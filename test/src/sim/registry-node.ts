import { createHash } from "node:crypto";
import { DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import {
  addServices,
  buildContext,
  type Context,
  configSchema,
  REGISTRY_LIMITS,
  RefusedAgents,
  type RegistryLimits,
  schema,
} from "@diskmesh/disk-registry/simulation";
import { messageOf, silentLogger } from "@diskmesh/domain";
import { Lifecycle } from "@diskmesh/service";
import { Tablet } from "@diskmesh/tablet";
import type { RegistryRun, World } from "./parts.js";
import { SimProcess } from "./seed/timeline.js";
import { SimServer } from "./sim-server.js";
import { SimStorage, type SimStore } from "./store.js";

/** Address of all registry processes. A random one of several answers. */
export const REGISTRY_ADDRESS = "registry:7030";

/** Machines on which a registry may run. */
export const REGISTRY_PLACES = ["reg-1", "reg-2"] as const;

const tls = { caFile: "unused", certFile: "unused", keyFile: "unused" };

/** Shorter times than the defaults, so that few simulated seconds contain many events. */
const config = configSchema.parse({
  listen: { host: "127.0.0.1", port: 0 },
  tls,
  tablet: { storage: "unused" },
  heartbeat: { intervalMs: 600, timeoutMs: 1_800 },
  unavailableRemovalTimeoutMs: 5_000,
});

function configOf({ scenario }: World): typeof config {
  const { copyBytesPerSecond: bytesPerSecondOfHost = config.moves.bytesPerSecondOfHost } = scenario ?? {};
  return { ...config, moves: { ...config.moves, bytesPerSecondOfHost } };
}

const limits: RegistryLimits = {
  ...REGISTRY_LIMITS,
  backoff: { minDelayMs: 50, maxDelayMs: 2_000 },
  agentTimeoutMs: 4_000,
  maxOrderedHosts: 4,
  unexportTimeoutMs: 500,
  erasePollIntervalMs: 100,
};

export const unavailableRemovalTimeoutMs = config.unavailableRemovalTimeoutMs;
export const silenceTimeoutMs = config.heartbeat.timeoutMs;

export class RegistryNode implements RegistryRun {
  readonly process: SimProcess;
  context: Context | undefined;
  readonly #storage: SimStorage;
  readonly #lifecycle: Lifecycle;

  constructor(
    private readonly world: World,
    /** Store whose history this registry continues. */
    readonly store: SimStore,
    place: string,
    run: number,
  ) {
    this.process = new SimProcess(world.timeline, place, `registry ${place}#${run}`);
    world.rewinds.began(this.process, store);
    this.#storage = new SimStorage(store, this.process, world);
    this.#lifecycle = new Lifecycle(silentLogger);
    void this.#start();
  }

  async #start(): Promise<void> {
    const { world, process } = this;
    try {
      const tablet = await Tablet.open({
        name: "registry",
        schema,
        storage: this.#storage,
        address: REGISTRY_ADDRESS,
        clock: process,
        limits: { renewIntervalMs: 2_000, commitTimeoutMs: 8_000 },
      });
      world.trace(`${process.name}: leads as generation ${tablet.generation}`);
      void tablet.lost.then((reason) => {
        if (!process.alive) return;
        world.trace(`${process.name}: ${messageOf(reason)}`);
        world.endRegistry(this);
      });
      const context = await buildContext(this.#lifecycle, {
        config: configOf(world),
        limits,
        log: silentLogger,
        tablet,
        refusedAgents: new RefusedAgents(process),
        edges: {
          clock: process,
          random: world.serviceRandom(),
          // Differs for each run of a registry, and draws nothing from the seed.
          randomBytes: (count) => createHash("sha256").update(process.name).digest().subarray(0, count),
          afterTurn: (callback) => void process.after(0, callback),
          connectAgent: ({ address }) =>
            world.network.client(
              DiskAgentServiceDefinition,
              { process, identity: { role: "disk-registry", name: "" } },
              address,
              { defaultDeadlineMs: limits.agentTimeoutMs },
            ),
        },
      });
      this.context = context;
      const server = new SimServer(process);
      addServices(server, () => context);
      world.network.serve(REGISTRY_ADDRESS, server);
    } catch (error) {
      if (!process.alive) return;
      world.trace(`${process.name}: cannot start: ${messageOf(error)}`);
      world.endRegistry(this);
    }
  }

  /** Ends the process; a commit in transit to the store takes effect now or never. */
  crash(): void {
    if (!this.process.alive) return;
    this.process.alive = false;
    this.#storage.crash();
    this.world.network.remove(this.process);
  }
}
