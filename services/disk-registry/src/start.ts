import { UnavailableError } from "@diskmesh/domain";
import { RpcServer } from "@diskmesh/rpc";
import { type Lifecycle, type Logger, rpcFailureLogger, systemClock } from "@diskmesh/service";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { grpcAgents } from "./agent-clients.js";
import { buildContext } from "./build-context.js";
import type { Config } from "./config.js";
import type { Context, RegistryTablet } from "./context.js";
import { schema } from "./model/schema.js";
import { addServices } from "./services.js";

/** Starts the registry: it listens at once, and serves when it leads its tablet and all state is loaded. */
export async function start(lifecycle: Lifecycle, config: Config, log: Logger): Promise<void> {
  let context: Context | undefined;
  const server = new RpcServer({ tls: config.tls, limits: config.rpc, onError: rpcFailureLogger(log) });
  addServices(server, () => {
    if (context !== undefined) return context;
    throw new UnavailableError("the registry is loading its state: try again", { retryAfterMs: 200 });
  });
  const port = await server.listen(config.listen);
  // Also when loading fails, so that the port is free again.
  lifecycle.use("rpc server", () => server.drain());
  const address = config.advertisedAddress ?? `${config.listen.host}:${port}`;
  const tablet = await openTablet(config, address);
  void tablet.lost.then((reason) => lifecycle.fail(reason));
  const connectAgent = grpcAgents({ tls: config.tls, defaultDeadlineMs: config.orders.rpcTimeoutMs });
  const edges = { clock: systemClock, random: Math.random, connectAgent, afterTurn: setImmediate };
  context = await buildContext(lifecycle, { config, log, tablet, edges });
  // Added last, so stopped first: calls under way end while everything that they need still runs.
  lifecycle.use("calls under way", () => server.drain());
  server.setServing(true);
  log.info(
    { address, tabletId: tablet.id, tabletGeneration: tablet.generation, stateLoaded: await counts(tablet) },
    "disk-registry serves",
  );
}

function openTablet(config: Config, address: string): Promise<RegistryTablet> {
  const storage = openStorage(config.tablet.storage, config.tablet.name);
  return Tablet.open({ name: config.tablet.name, schema, storage, address });
}

function counts(tablet: RegistryTablet): Promise<Record<string, number>> {
  return tablet.read(({ hosts, devices, disks }) => ({ hosts: hosts.size, devices: devices.size, disks: disks.size }));
}
