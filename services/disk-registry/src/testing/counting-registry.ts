import { randomBytes } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { silentLogger } from "@diskmesh/domain";
import { RpcServer } from "@diskmesh/rpc";
import { Lifecycle, systemClock } from "@diskmesh/service";
import { type Change, Tablet, type TabletStorage } from "@diskmesh/tablet";
import { type TestCertificates, testCertificates } from "@diskmesh/testkit";
import { grpcAgents } from "../agents/agent-clients.js";
import { RefusedAgents } from "../agents/refused-agents.js";
import { buildContext } from "../build-context.js";
import type { Context } from "../calls/context.js";
import { configSchema } from "../config/config.js";
import { REGISTRY_LIMITS, RPC_LIMITS } from "../config/limits.js";
import { addServices } from "../services.js";
import { storedSchema as schema } from "../store/stored-schema.js";

/**
 * Duration of a commit, in turns of the event loop, so that other calls run meanwhile. A number of turns is independent
 * of the machine's speed.
 */
const TURNS_PER_COMMIT = 8;

/**
 * Storage that counts commits and stores nothing. Each commit takes a while, so that concurrent changes can share one.
 */
class CountingStorage implements TabletStorage {
  readonly commits: (readonly Change[])[] = [];

  claim = async () => ({ tabletId: "tablet-1", incarnation: "life-1", parentIncarnations: [], generation: 1 });
  renew = async () => {};
  claimAbove = async (generation: number) => generation + 1;
  load = async () => {};
  close = async () => {};

  async commit(changes: readonly Change[]): Promise<void> {
    this.commits.push(changes);
    await systemClock.sleep(2);
    for (let turn = 0; turn < TURNS_PER_COMMIT; turn++) await nextTurn();
  }
}

/** A registry in this process, served over real connections, whose commits are counted. */
export class CountingRegistry implements AsyncDisposable {
  private constructor(
    readonly context: Context,
    readonly commits: (readonly Change[])[],
    readonly certificates: TestCertificates,
    readonly address: string,
    private readonly lifecycle: Lifecycle,
  ) {}

  static async start(hostIds: readonly string[]): Promise<CountingRegistry> {
    const certificates = await testCertificates({ hostIds });
    const tls = certificates.files("disk-registry");
    const config = configSchema.parse({
      listen: { host: "127.0.0.1", port: 0 },
      tls,
      tablet: { storage: "unused" },
      // Longer than any test, because a silent host would cause additional commits.
      heartbeat: { timeoutMs: 600_000 },
    });
    const storage = new CountingStorage();
    const tablet = await Tablet.open({ name: "registry", schema, storage, address: "here" });
    const lifecycle = new Lifecycle(silentLogger);
    const connectAgent = grpcAgents({ tls, defaultDeadlineMs: 5_000 });
    const edges = { clock: systemClock, random: Math.random, randomBytes, connectAgent, afterTurn: setImmediate };
    const refusedAgents = new RefusedAgents(systemClock);
    const context = await buildContext(lifecycle, {
      config,
      limits: REGISTRY_LIMITS,
      log: silentLogger,
      tablet,
      edges,
      refusedAgents,
    });
    const server = lifecycle.use("server", new RpcServer({ tls, limits: RPC_LIMITS }));
    addServices(server, () => context);
    const address = `127.0.0.1:${await server.listen(config.listen)}`;
    return new CountingRegistry(context, storage.commits, certificates, address, lifecycle);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.lifecycle.stopAll();
  }
}
