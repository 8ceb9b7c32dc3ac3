import type { Logger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/domain";
import {
  ALERT_ENTRY,
  DEFAULT_RPC_SERVER_LIMITS,
  type RefusedConnection,
  RpcServer,
  type RpcServerLimits,
} from "@diskmesh/rpc";
import { CurrentTls, readServerTlsFiles, type TlsFiles } from "@diskmesh/tls";
import type { HttpListen } from "../health/brief-http.js";
import { CertificateWatch } from "../health/certificate-watch.js";
import { Descriptors } from "../health/descriptors.js";
import { HealthHttp } from "../health/health-http.js";
import { MemoryWatch, readGroupMemory } from "../health/memory-watch.js";
import { observeReadiness } from "../health/process-metrics.js";
import type { Readiness, ReadinessReport } from "../health/readiness.js";
import type { Lifecycle } from "./lifecycle.js";
import { rpcLogging } from "./rpc-logging.js";

export interface RpcServerConfig {
  readonly tls: TlsFiles;
  readonly rpc: Pick<RpcServerLimits, "maxConnectionsPerAddress">;
  readonly health?: { readonly listen: HttpListen } | undefined;
}

/** Descriptors that new connections must not use. They are kept for stores, files and outgoing connections. */
const RESERVED_DESCRIPTORS = 64;

/** Name of the health check for free descriptors. */
const DESCRIPTORS_HEALTH = "descriptors";

/**
 * Creates a service's gRPC server. It logs failures, refuses connections while descriptors are short, and reports
 * readiness in health checks. With `health` in the config, HTTP reports it too.
 */
export async function createRpcServer(
  lifecycle: Lifecycle,
  config: RpcServerConfig,
  log: Logger,
  readiness: Readiness,
  {
    onCertificateEnded = () => {},
    onRefused = () => {},
    limits = DEFAULT_RPC_SERVER_LIMITS,
  }: {
    readonly onCertificateEnded?: (error: Error) => void;
    /** Called for every refused connection, in addition to the log line. */
    readonly onRefused?: ((refused: RefusedConnection) => void) | undefined;
    readonly limits?: RpcServerLimits | undefined;
  } = {},
): Promise<RpcServer> {
  let descriptors: Descriptors | undefined;
  const shortage = () => descriptors?.shortage();
  const logging = rpcLogging(log);
  const server = new RpcServer({
    tls: config.tls,
    limits: { ...limits, ...config.rpc },
    shortage,
    ...logging,
    onRefused: (refused) => {
      logging.onRefused(refused);
      onRefused(refused);
    },
  });
  server.setHealth(DESCRIPTORS_HEALTH, true);
  readiness.met("descriptors");
  descriptors = lifecycle.use(
    "descriptors",
    new Descriptors({
      reserved: RESERVED_DESCRIPTORS,
      log,
      onChange: (short) => {
        server.setHealth(DESCRIPTORS_HEALTH, !short);
        if (short) readiness.missing("descriptors", "file descriptors are short, and new connections are refused");
        else readiness.met("descriptors");
      },
    }),
  );
  const told = new Set<string>();
  readiness.onChange((report) => {
    publishHealth(server, report);
    publishAlerts(server, report, told);
  });
  await reportReadiness(lifecycle, config, log, readiness, onCertificateEnded);
  return server;
}

/**
 * Reports readiness in metrics and, with `health` in the config, over HTTP. Watches the end of the process's own
 * certificate if it has one.
 */
export async function reportReadiness(
  lifecycle: Lifecycle,
  { tls, health }: Partial<Pick<RpcServerConfig, "tls">> & Pick<RpcServerConfig, "health">,
  log: Logger,
  readiness: Readiness,
  onCertificateEnded: (error: Error) => void = () => {},
): Promise<void> {
  lifecycle.use("metrics of readiness", observeReadiness(readiness));
  const read = () => readGroupMemory("/proc/self/cgroup", "/sys/fs/cgroup");
  lifecycle.use("memory", new MemoryWatch({ read, clock: systemClock, log }));
  if (tls !== undefined) {
    readServerTlsFiles(tls, systemClock.nowMs());
    const current = lifecycle.use("TLS files", CurrentTls.open(tls, log));
    const { certFile } = tls;
    lifecycle.use(
      "certificate",
      new CertificateWatch({
        tls: current,
        certFile,
        readiness,
        clock: systemClock,
        log,
        onEnded: onCertificateEnded,
      }),
    );
  }
  lifecycle.stopping.addEventListener("abort", () => readiness.setServing(false), { once: true });
  if (health === undefined) return;
  const http = lifecycle.use("health over HTTP", new HealthHttp(readiness));
  await http.listen(health.listen);
}

/** Sets a health entry "alert.NAME" for each alert: not healthy while it lasts. `told` has those that were set before. */
function publishAlerts(server: RpcServer, { alerts }: ReadinessReport, told: Set<string>): void {
  for (const [name, { why }] of alerts) {
    told.add(name);
    server.setHealth(`${ALERT_ENTRY}${name}`, false, why);
  }
  for (const name of told) if (!alerts.has(name)) server.setHealth(`${ALERT_ENTRY}${name}`, true);
}

/**
 * Sets the health entries. The whole server has the status of the entry "ready". A standby is not ready, but its entry
 * "standby" is healthy.
 */
function publishHealth(server: RpcServer, { ready, serving, why, standsByFor, needs }: ReadinessReport): void {
  server.setServing(serving, ready, why);
  server.setHealth("ready", ready, why);
  for (const [need, state] of needs) server.setHealth(need, state.met, state.why);
  const whom = standsByFor === undefined ? "it does not stand by" : `it stands by: the one at ${standsByFor} leads`;
  if (needs.has("leader")) server.setHealth("standby", standsByFor !== undefined, whom);
}
