import { createRpcServer, Leadership, type Lifecycle, type Logger, systemClock, type Waiting } from "@diskmesh/service";
import { isDatabaseUrl, openStorage, Tablet } from "@diskmesh/tablet";
import { grpcAgents } from "./agent-clients.js";
import { buildContext } from "./build-context.js";
import type { Config } from "./config.js";
import type { Context, RegistryTablet } from "./context.js";
import { addServices } from "./services.js";
import { storedSchema as schema } from "./stored-schema.js";

/** Starts the registry: it listens at once, and serves whenever it leads its tablet and all state is loaded. */
export async function start(lifecycle: Lifecycle, config: Config, log: Logger): Promise<void> {
  const server = createRpcServer(lifecycle, config, log);
  let address = "";
  const leadership = new Leadership<Context>({
    service: "disk-registry",
    standsBy: isDatabaseUrl(config.tablet.storage),
    server,
    onFailure: (error) => lifecycle.fail(error),
    clock: systemClock,
    random: Math.random,
    log,
    lead: async (scope, waiting) => {
      const tablet = await openTablet(config, address, waiting);
      const connectAgent = grpcAgents({ tls: config.tls, defaultDeadlineMs: config.orders.rpcTimeoutMs });
      const edges = { clock: systemClock, random: Math.random, connectAgent, afterTurn: setImmediate };
      const context = await buildContext(scope, { config, log, tablet, edges });
      const { id: tabletId, incarnation, generation: tabletGeneration, documentsRead } = tablet;
      const stateLoaded = await counts(tablet);
      log.info(
        { address, tabletId, incarnation, tabletGeneration, stateLoaded, documentsRead },
        "disk-registry serves",
      );
      return { context, lost: tablet.lost };
    },
  });
  addServices(server, () => leadership.current());
  const port = await server.listen(config.listen);
  address = config.advertisedAddress ?? `${config.listen.host}:${port}`;
  // Also when loading fails, so that the port is free again.
  lifecycle.use("rpc server", () => server.drain());
  lifecycle.use("leadership", leadership);
  // Added last, so stopped first: calls under way end while everything that they need still runs.
  lifecycle.use("calls under way", () => server.drain());
  await leadership.start();
}

function openTablet(config: Config, address: string, waiting: Waiting): Promise<RegistryTablet> {
  const { storage: url, name, lease } = config.tablet;
  const mongo = { leaseTimeMs: lease.timeMs, safeLeaseTimeMs: lease.safeTimeMs };
  const storage = openStorage(url, name, { mongo });
  const { renewIntervalMs } = lease;
  return Tablet.open({ name, schema, storage, address, limits: { renewIntervalMs }, ...waiting });
}

function counts(tablet: RegistryTablet): Promise<Record<string, number>> {
  return tablet.read(({ hosts, devices, disks }) => ({ hosts: hosts.size, devices: devices.size, disks: disks.size }));
}
