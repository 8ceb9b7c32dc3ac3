import { formatHostPort, type Logger, systemClock } from "@diskmesh/domain";
import type { RefusedConnection, RpcServer, RpcServerLimits } from "@diskmesh/rpc";
import { leaseTimes } from "../config/pieces.js";
import { LeaderHealth } from "../health/leader-health.js";
import { type Need, Readiness } from "../health/readiness.js";
import { Leadership, type Term, type Waiting } from "./leadership.js";
import type { Lifecycle } from "./lifecycle.js";
import { createRpcServer, type RpcServerConfig } from "./rpc-server.js";

export interface LeadingServiceConfig extends RpcServerConfig {
  readonly listen: { readonly host: string; readonly port: number };
  /** Where others reach this process; `listen` by default. */
  readonly advertisedAddress?: string | undefined;
  readonly tablet: { readonly leaseTimeMs: number };
}

export interface LeadingService<Context> {
  /** For messages, e.g. "disk-registry". */
  readonly service: string;
  /** What people call the database of its state, in which another process can lead meanwhile; undefined for a folder. */
  readonly databaseName: string | undefined;
  /** `current` throws UnavailableError while this process does not lead. */
  readonly addServices: (server: RpcServer, current: () => Context, readiness: Readiness) => void;
  /** Waits until this process may lead, then builds what serves at `address`. */
  readonly lead: (scope: Lifecycle, waiting: Waiting, address: string, readiness: Readiness) => Promise<Term<Context>>;
  /** Opens further faces beside gRPC, before this process leads or stands by; what it adds is stopped first. */
  readonly openFaces?: () => Promise<void>;
  /** Is told of every connection that was not let in, beside the log. */
  readonly onRefused?: (refused: RefusedConnection) => void;
  /** What a leader needs beside its lease and its database. */
  readonly needs?: readonly Need[];
  /** Limits of its gRPC server; the defaults of all services when absent. */
  readonly rpcLimits?: RpcServerLimits;
}

/** Starts a service that has a tablet: it listens at once, and serves whenever it leads. */
export async function startLeadingService<Context>(
  lifecycle: Lifecycle,
  config: LeadingServiceConfig,
  log: Logger,
  { service, databaseName, addServices, lead, openFaces, onRefused, needs = [], rpcLimits }: LeadingService<Context>,
): Promise<void> {
  const readiness = new Readiness({ needs: ["certificate", "leader", "database", ...needs], log });
  // One to whom nobody talks must not lead: another one can, and takes the lease as soon as it is given back.
  const onCertificateEnded = (error: Error): void => lifecycle.fail(error);
  const server = await createRpcServer(lifecycle, config, log, readiness, {
    onCertificateEnded,
    onRefused,
    limits: rpcLimits,
  });
  const silentMs = leaseTimes(config.tablet).safeTimeMs;
  const database = databaseName === undefined ? undefined : { name: databaseName, silentMs };
  let address = "";
  const leadership = new Leadership<Context>({
    service,
    standsBy: databaseName !== undefined,
    server,
    health: new LeaderHealth({ readiness, clock: systemClock, database }),
    onFailure: (error) => lifecycle.fail(error),
    clock: systemClock,
    random: Math.random,
    log,
    lead: (scope, waiting) => lead(scope, waiting, address, readiness),
  });
  addServices(server, () => leadership.current(), readiness);
  const port = await server.listen(config.listen);
  address = config.advertisedAddress ?? formatHostPort({ host: config.listen.host, port });
  // Also when loading fails, so that the port is free again.
  lifecycle.use("gRPC server", () => server.drain());
  lifecycle.use("leadership", leadership);
  // Added last, so stopped first: calls under way end while everything that they need still runs.
  lifecycle.use("calls under way", () => server.drain());
  await openFaces?.();
  await leadership.start();
}
