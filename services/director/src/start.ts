import { randomUUID } from "node:crypto";
import { AdminServiceDefinition } from "@diskmesh/api/common";
import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { AgentDriverServiceDefinition } from "@diskmesh/api/internal";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { type Logger, OutdatedError } from "@diskmesh/domain";
import type { DriverHost } from "@diskmesh/driver/host";
import { AgentClient, connectNats, type NatsConnection } from "@diskmesh/mbus";
import { createClient } from "@diskmesh/rpc";
import {
  type Lifecycle,
  type Readiness,
  type ReadinessReport,
  startLeadingService,
  systemClock,
  type Term,
  type Waiting,
} from "@diskmesh/service";
import { databaseName, watchStorageTls } from "@diskmesh/tablet";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import { keepAgentAccess } from "./agents/agent-access.js";
import { AgentCertificates } from "./agents/agent-certificates.js";
import { agentSettingsOf, logsUrlOf } from "./agents/agent-settings.js";
import { BoshRegistryServer } from "./bosh-registry/bosh-registry-server.js";
import type { DirectorConfig } from "./config/config.js";
import { DIRECTOR_LIMITS, type DirectorLimits } from "./config/limits.js";
import { type Dispatcher, Dispatchers } from "./cpi/dispatchers.js";
import { type Connections, createDirector, openState } from "./create-director.js";
import { Registries } from "./explain/registries.js";
import type { Context } from "./http/context.js";
import { HttpServer } from "./http/http-server.js";
import { allRoutes } from "./http/routes/routes.js";
import { addServices } from "./services.js";
import type { DirectorTablet } from "./store/stored-schema.js";
import { Nodes } from "./vendor-methods/nodes.js";

/**
 * Maximum lead of a dispatcher's generation over the tablet's generation for which a restored director claims a new
 * generation. A larger lead fails the director.
 */
const RESTORED_GENERATIONS_MAX = 2 ** 20;

/**
 * Starts a director. It listens at once, serves while it leads, and runs tasks once the dispatchers refuse all former
 * directors.
 */
export async function startDirector(
  lifecycle: Lifecycle,
  config: DirectorConfig,
  log: Logger,
  limits = DIRECTOR_LIMITS,
): Promise<void> {
  const tlsFiles = await watchStorageTls(config.tablet.storage, log, (reason) => lifecycle.fail(reason));
  lifecycle.use("TLS files of the database", tlsFiles);
  const httpServers: HttpServer[] = [];
  const boshRegistries: BoshRegistryServer[] = [];
  let drivers: DriverHost | undefined;
  await startLeadingService<Context>(lifecycle, config, log, {
    service: "director",
    databaseName: databaseName(config.tablet.storage),
    addServices: (server, current, readiness) => {
      const report = () => reportOf(readiness, drivers);
      addServices(server, current, report);
      if (config.http !== undefined)
        httpServers.push(new HttpServer({ config, limits, current, report, routes: allRoutes, log }, config.http));
      if (config.boshRegistry !== undefined) {
        const { leaderWaitMs } = limits.http;
        const own = { config: config.boshRegistry, limits: limits.boshRegistry, clock: systemClock };
        boshRegistries.push(new BoshRegistryServer({ ...own, current, leaderWaitMs, log }));
      }
    },
    needs: ["nats", "dispatcher"],
    // Registered last and so stopped first, because requests under way need all other parts.
    openApis: async () => {
      for (const server of httpServers) await lifecycle.use("HTTPS server", server).listen();
      for (const server of boshRegistries) await lifecycle.use("bosh-registry", server).listen();
    },
    lead: (scope, waiting, address, readiness) => {
      const report = () => reportOf(readiness, drivers);
      const onDrivers = (host: DriverHost | undefined) => {
        drivers = host;
      };
      return lead({ config, limits, scope, readiness, report, onDrivers, log }, address, waiting);
    },
  });
}

/** Returns the process report: readiness, and the failed drivers, without which the director serves. */
function reportOf(readiness: Readiness, drivers: DriverHost | undefined): ProcessReport & Pick<ReadinessReport, "why"> {
  const report = readiness.report();
  const failed = drivers?.failed();
  if (failed === undefined) return report;
  return { ...report, needs: new Map([...report.needs, ["drivers", { met: false, ...failed }]]) };
}

/** The inputs of a leading director. */
interface Ground {
  readonly config: DirectorConfig;
  readonly limits: DirectorLimits;
  readonly scope: Lifecycle;
  readonly readiness: Readiness;
  readonly report: () => ProcessReport;
  /** Gets the director's own drivers; undefined once it leads no more. */
  readonly onDrivers: (drivers: DriverHost | undefined) => void;
  readonly log: Logger;
}

async function lead(ground: Ground, address: string, waiting: Waiting): Promise<Term<Context>> {
  const { config, limits, scope, report, onDrivers, log } = ground;
  const state = await openState(config, address, scope, waiting, log);
  const agentCertificates = await AgentCertificates.open(config, log);
  if (agentCertificates) scope.use("NATS authorities", agentCertificates);
  const { nats, ...clients } = await connect(ground);
  const agentSettings = await agentSettingsOf(config);
  const own = { agentCertificates, agentSettings, logsUrl: logsUrlOf(config, address) };
  const connections = { ...clients, ...own, report };
  await keepAgentAccess({ config, tablet: state.tablet, nats, scope, log }, agentCertificates);
  const director = createDirector(config, state, connections, scope, log, limits);
  const { context, runner, times, sender, callRecords, owedRemovals, renewals, agentNotices, resurrector } = director;
  onDrivers(director.drivers);
  scope.use("report of drivers", () => onDrivers(undefined));
  const { cloud, cpi, resurrection } = context.configs;
  await Promise.all([cloud, cpi, resurrection].map((configs) => configs.load(state.tablet)));
  const { generation, documentsRead } = state.tablet;
  log.info({ address, generation, documentsRead }, "leadership gained");
  times.start();
  context.stemcellFiles.sweep();
  const { dispatchers } = connections;
  await callRecords.start();
  let tasksRun = false;
  const runTasks = async () => {
    tasksRun = true;
    log.info({ generation: state.tablet.generation }, "task execution started");
    sender.start();
    await runner.start();
    await owedRemovals.start();
    renewals?.start();
    await context.agentHealths.start();
    agentNotices.start();
    resurrector.start();
  };
  scope.use("dispatcher checks", dispatchers).start({
    fence: fencing(state.tablet, config, scope, log, () => tasksRun),
    obeys: (dispatcher) => {
      if (tasksRun) sender.sendSoon(dispatcher);
      else runTasks().catch((error: unknown) => scope.fail(error));
    },
    settle: (dispatcher) => callRecords.settle(dispatcher),
  });
  return { context, lost: state.tablet.lost, checkMayAct: () => state.tablet.checkMayAct() };
}

async function connect(
  ground: Ground,
): Promise<Pick<Connections, "dispatchers" | "agents" | "nodes" | "registries"> & { readonly nats: NatsConnection }> {
  const { config, limits, scope: lifecycle, readiness, log } = ground;
  const dispatchers = connectDispatchers(ground);
  const natsTls = { tls: config.nats.tls ?? config.tls, tlsSection: config.nats.tls ? "nats.tls" : "tls" };
  const nats = await connectNats({ ...config.nats, ...natsTls, name: "director", log });
  lifecycle.use("NATS connection", nats);
  const forget = nats.onChange((why) => (why === undefined ? readiness.met("nats") : readiness.missing("nats", why)));
  // Closed before the connection, so that closing is not reported as an outage.
  lifecycle.use("health of NATS", () => {
    forget();
    readiness.forget("nats");
  });
  const { requestTimeoutMs, attachTimeoutMs: callTimeoutMs, taskPollIntervalMs } = limits.agents;
  const agents = new AgentClient({
    nats,
    directorId: randomUUID(),
    requestTimeoutMs,
    callTimeoutMs,
    taskPollIntervalMs,
    log,
  });
  lifecycle.use("agent client", agents);
  return { dispatchers, agents, nats, ...connectFleet(ground) };
}

function connectDispatchers({ config, scope: lifecycle, readiness, log }: Ground): Dispatchers {
  const { dispatcher, tls, cpi } = config;
  const dispatchers = [dispatcher.address].flat().map((address) => {
    const common = { address, tls, serverRole: "cpi-dispatcher", defaultDeadlineMs: cpi.callTimeoutMs } as const;
    const client = createClient(CpiServiceDefinition, common);
    const health = createClient(HealthDefinition, common);
    lifecycle.use("CPI client", client);
    lifecycle.use("health client of a dispatcher", health);
    return { address, client, health };
  });
  return new Dispatchers({ dispatchers, readiness, clock: systemClock, random: Math.random, log });
}

function connectFleet({ config, limits, scope: lifecycle }: Ground): { nodes: Nodes; registries: Registries } {
  const common = { tls: config.tls, defaultDeadlineMs: limits.nodes.requestTimeoutMs };
  const clients = config.nodes.registries.map(({ address }) => {
    const of = { ...common, address, serverRole: "disk-registry" } as const;
    return {
      registry: lifecycle.use("disk-registry client", createClient(DiskRegistryServiceDefinition, of)),
      admin: lifecycle.use("disk-registry client", createClient(AdminServiceDefinition, of)),
    };
  });
  const nodes = new Nodes({
    registries: clients.map(({ registry }) => registry),
    connect: (nodeId, address) => {
      const of = { ...common, address, serverRole: "disk-agent", serverName: nodeId } as const;
      return createClient(AgentDriverServiceDefinition, of);
    },
    limits: limits.nodes,
    clock: systemClock,
  });
  return { nodes: lifecycle.use("node clients", nodes), registries: new Registries(clients) };
}

/**
 * Returns a function that makes a dispatcher refuse former directors. Calls of former directors may still run at the
 * dispatcher until the function resolves. A dispatcher may have accepted a newer generation than that of a director
 * restored from a backup. The director then claims a generation above it, once for all dispatchers.
 */
function fencing(
  tablet: DirectorTablet,
  config: DirectorConfig,
  scope: Lifecycle,
  log: Logger,
  tasksRun: () => boolean,
): (dispatcher: Dispatcher) => Promise<void> {
  let claiming: Promise<number> | undefined;
  const claimAbove = async (error: OutdatedError, generation: number): Promise<void> => {
    if (claiming === undefined) {
      const above = generationToClaimAbove(error, tablet);
      if (above === undefined) throw error;
      claiming = tablet.claimAbove(above);
      log.warn({ above, generation: await claiming }, "director generation raised after a restore from backup");
      // Once tasks run, a higher claim is impossible: dispatchers that already accept this director would end its
      // running calls like a former director's.
      if (tasksRun()) throw error;
    } else if (generation >= (await claiming)) throw error;
  };
  return async ({ client }) => {
    for (;;) {
      const { id: directorId, generation: directorGeneration } = tablet;
      try {
        const request = { directorId, directorGeneration };
        await client.fence(request, { signal: scope.stopping, deadlineMs: config.cpi.callTimeoutMs });
        return;
      } catch (error) {
        if (!(error instanceof OutdatedError)) throw error;
        await claimAbove(error, directorGeneration).catch((outdated: unknown) => {
          scope.fail(outdated);
          throw outdated;
        });
      }
    }
  };
}

/**
 * Returns the generation that the dispatcher has accepted when a restored director must claim above it: the generation
 * dates from before the restore, or from another restore of the same backup. Returns undefined when the error has
 * another cause.
 */
function generationToClaimAbove(error: OutdatedError, tablet: DirectorTablet): number | undefined {
  const leading = Number(error.about.leading_generation);
  const isNear = leading > tablet.generation && leading - tablet.generation <= RESTORED_GENERATIONS_MAX;
  return tablet.parentIncarnations.length > 0 && isNear ? leading : undefined;
}
