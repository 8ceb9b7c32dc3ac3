import { join } from "node:path";
import { formatHostPort, type Logger, systemClock } from "@diskmesh/domain";
import type { RefusedConnection, RpcServer, RpcServerLimits } from "@diskmesh/rpc";
import { leaseTimes } from "../config/pieces.js";
import { AbruptEnds } from "../health/abrupt-ends.js";
import { LeaderHealth } from "../health/leader-health.js";
import { type Need, Readiness } from "../health/readiness.js";
import { Leadership, type Term, type Waiting } from "./leadership.js";
import type { Lifecycle } from "./lifecycle.js";
import { createRpcServer, type RpcServerConfig } from "./rpc-server.js";

export interface LeadingServiceConfig extends RpcServerConfig {
  readonly listen: { readonly host: string; readonly port: number };
  /** Address at which others reach this process; `listen` by default. */
  readonly advertisedAddress?: string | undefined;
  readonly tablet: { readonly storage: string; readonly leaseTimeMs: number };
}

export interface LeadingService<Context> {
  /** Name of the service in messages, e.g. "disk-registry". */
  readonly service: string;
  /**
   * Name of the state's database, for messages. Undefined for a folder, with which no other process can lead meanwhile.
   */
  readonly databaseName: string | undefined;
  /** `current` throws UnavailableError while this process does not lead. */
  readonly addServices: (server: RpcServer, current: () => Context, readiness: Readiness) => void;
  /** Waits until this process may lead, then builds the context that serves at `address`. */
  readonly lead: (scope: Lifecycle, waiting: Waiting, address: string, readiness: Readiness) => Promise<Term<Context>>;
  /** Opens APIs besides gRPC before this process leads or stands by. Resources added here are stopped first. */
  readonly openApis?: () => Promise<void>;
  /** Called for every refused connection, in addition to the log. */
  readonly onRefused?: (refused: RefusedConnection) => void;
  /** Dependencies of a leader besides its lease and database. */
  readonly needs?: readonly Need[];
  /** Limits of its gRPC server; the defaults of all services when absent. */
  readonly rpcLimits?: RpcServerLimits;
}

/** Starts a service with a tablet. It listens at once, and serves whenever it leads. */
export async function startLeadingService<Context>(
  lifecycle: Lifecycle,
  config: LeadingServiceConfig,
  log: Logger,
  { service, databaseName, addServices, lead, openApis, onRefused, needs = [], rpcLimits }: LeadingService<Context>,
): Promise<void> {
  const readiness = new Readiness({ needs: ["certificate", "leader", "database", ...needs], log });
  // A process whose clients reject its certificate must not lead. It fails, which releases the lease for another
  // process.
  const onCertificateEnded = (error: Error): void => lifecycle.fail(error);
  const server = await createRpcServer(lifecycle, config, log, readiness, {
    onCertificateEnded,
    onRefused,
    limits: rpcLimits,
  });
  const silentMs = leaseTimes(config.tablet).safeTimeMs;
  const database = databaseName === undefined ? undefined : { name: databaseName, silentMs };
  let address = "";
  let isMarked = databaseName !== undefined;
  const mark = async (): Promise<void> => {
    if (isMarked) return;
    isMarked = true;
    const file = join(config.tablet.storage, `${service}-runs.json`);
    lifecycle.use("mark of a running process", await AbruptEnds.open({ file, clock: systemClock, log }));
  };
  const leadership = new Leadership<Context>({
    service,
    standsBy: databaseName !== undefined,
    server,
    health: new LeaderHealth({ readiness, clock: systemClock, database }),
    onFailure: (error) => lifecycle.fail(error),
    clock: systemClock,
    random: Math.random,
    log,
    lead: async (scope, waiting) => {
      const term = await lead(scope, waiting, address, readiness);
      // After the state was opened, which locks its folder against a second process.
      await mark();
      return term;
    },
  });
  addServices(server, () => leadership.current(), readiness);
  const port = await server.listen(config.listen);
  address = config.advertisedAddress ?? formatHostPort({ host: config.listen.host, port });
  lifecycle.use("leadership", leadership);
  // Stopped before the leadership, so that running calls end while their dependencies still run.
  lifecycle.use("gRPC server", () => server.drain());
  await openApis?.();
  await leadership.start();
}
