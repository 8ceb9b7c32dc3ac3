import { randomBytes } from "node:crypto";
import { type Logger, UnavailableError } from "@diskmesh/domain";
import { openHostAuthority } from "@diskmesh/pki";
import {
  type Lifecycle,
  type ReadinessReport,
  startLeadingService,
  systemClock,
  type Term,
  type Waiting,
} from "@diskmesh/service";
import { databaseName, watchStorageTls } from "@diskmesh/tablet";
import { observeTablet, openServiceTablet } from "@diskmesh/tablet-admin";
import { grpcAgents } from "./agents/agent-clients.js";
import { RefusedAgents } from "./agents/refused-agents.js";
import { buildContext } from "./build-context.js";
import type { Context } from "./calls/context.js";
import type { Config } from "./config/config.js";
import { REGISTRY_LIMITS, type RegistryLimits, RPC_LIMITS } from "./config/limits.js";
import { JoinServer } from "./joins/join-server.js";
import { addServices } from "./services.js";
import type { RegistryTablet } from "./store/stored-schema.js";
import { storedSchema } from "./store/stored-schema.js";

/**
 * Starts the registry. It listens at once, and serves calls while it leads its tablet and has loaded the state. Returns
 * the function that applies a reloaded config.
 */
export async function start(
  lifecycle: Lifecycle,
  started: Config,
  log: Logger,
  limits = REGISTRY_LIMITS,
): Promise<(config: Config) => Partial<Config>> {
  // Workers read the rate of moves for each order, so that a reload changes it for copies that run.
  const config = { ...started, moves: { ...started.moves } };
  const tlsFiles = await watchStorageTls(config.tablet.storage, log, (reason) => lifecycle.fail(reason));
  lifecycle.use("TLS files of the database", tlsFiles);
  const refusedAgents = new RefusedAgents(systemClock);
  let currentContext: () => Context = () => {
    throw new UnavailableError("the registry starts: try again");
  };
  await startLeadingService(lifecycle, config, log, {
    service: "disk-registry",
    rpcLimits: RPC_LIMITS,
    databaseName: databaseName(config.tablet.storage),
    addServices: (server, current: () => Context, readiness) => {
      currentContext = current;
      addServices(server, current, () => withoutMassSilence(readiness.report()));
    },
    openApis: async () => {
      const { join, tls } = config;
      if (join === undefined) return;
      await openHostAuthority(join.authority);
      const options = { tls, current: () => currentContext(), log };
      const server = lifecycle.use("join server", await JoinServer.listen(join.listen, options));
      log.info({ host: join.listen.host, port: server.port }, "hosts may join");
    },
    lead: (scope, waiting, address) => lead(scope, config, limits, address, waiting, log, refusedAgents),
    onRefused: (refused) => refusedAgents.connectionRefused(refused),
  });
  return ({ moves: { bytesPerSecondOfHost } }) => {
    config.moves.bytesPerSecondOfHost = bytesPerSecondOfHost;
    return { moves: { ...config.moves } };
  };
}

/** Leaves out the alert of a mass silence, which the hosts and ListHosts explain with its cures. */
function withoutMassSilence(report: ReadinessReport): ReadinessReport {
  return { ...report, alerts: new Map([...report.alerts].filter(([name]) => name !== "mass_silence")) };
}

async function lead(
  scope: Lifecycle,
  config: Config,
  limits: RegistryLimits,
  address: string,
  waiting: Waiting,
  log: Logger,
  refusedAgents: RefusedAgents,
): Promise<Term<Context>> {
  const tablet = await openServiceTablet(config.tablet, storedSchema, address, waiting);
  const connectAgent = grpcAgents({ tls: config.tls, defaultDeadlineMs: limits.agentTimeoutMs });
  const edges = { clock: systemClock, random: Math.random, randomBytes, connectAgent, afterTurn: setImmediate };
  const context = await buildContext(scope, { config, limits, log, tablet, edges, refusedAgents });
  scope.use("metrics of the tablet", observeTablet(tablet));
  const { id: tabletId, incarnation, generation: tabletGeneration, documentsRead } = tablet;
  const stateLoaded = await counts(tablet);
  log.info({ address, tabletId, incarnation, tabletGeneration, stateLoaded, documentsRead }, "leadership gained");
  return { context, lost: tablet.lost, checkMayAct: () => tablet.checkMayAct() };
}

function counts(tablet: RegistryTablet): Promise<Record<string, number>> {
  return tablet.read(({ hosts, devices, disks }) => ({ hosts: hosts.size, devices: devices.size, disks: disks.size }));
}
