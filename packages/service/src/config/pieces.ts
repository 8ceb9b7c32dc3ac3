import { hostPortOf } from "@diskmesh/domain";
import { problemsOfPair, problemsOfTlsFiles, type TlsFiles } from "@diskmesh/tls";
import * as z from "zod";
import { pathConfig } from "./path.js";
import { partlySecretConfig, withFacts } from "./schema.js";

/** A time limit in milliseconds, up to the maximum of Node's timers. */
export const durationMsConfig = z.int().min(1).max(2_147_483_647);

/** Returns a group of keys that may be left out as a whole. */
export function groupConfig<Shape extends Readonly<Record<string, z.ZodType>>>(meaning: string, shape: Shape) {
  const group = z.strictObject(shape);
  return group.prefault({} as z.input<typeof group>).describe(meaning);
}

/** Path of a file with a private key, with a warning when other users can read it. */
export const privateFileConfig = withFacts(pathConfig, { isPrivateFile: true });

/** `host:port` of a server, parsed to a HostPort. */
export const hostPortConfig = withFacts(
  z.string().refine((text) => hostPortOf(text) !== undefined, 'give "host:port"'),
  { kind: "`host:port`" },
);

/** `host:port` of a server, or a list of servers of which one leads at a time. */
export const addressesConfig = z.union([hostPortConfig, z.array(hostPortConfig).min(1).max(16)]);

/** Address and port on which a server listens. */
export const listenConfig = z
  .strictObject({
    host: z
      .string()
      .min(1)
      .describe("An address of this machine: 0.0.0.0 or :: for all, 127.0.0.1 for local clients only."),
    port: z.int().min(0).max(65_535).describe("0 lets the system choose."),
  })
  .describe("Listen address of the gRPC server.");

/** Listen address without a default port. */
const localListenConfig = z
  .strictObject({
    host: z.string().min(1).default("127.0.0.1").describe("An address of this machine."),
    port: z.int().min(1).max(65_535).describe("The port at that address."),
  })
  .describe("Listen address.");

/** PEM files of the authority, and of the process's own certificate and key. All are reloaded when they change. */
export const tlsConfig = withFacts(
  z
    .strictObject({
      caFile: pathConfig.describe("PEM: the trusted authorities; two while one replaces the other."),
      certFile: pathConfig.describe("PEM: the process's certificate, which names its role."),
      keyFile: privateFileConfig.describe("PEM: the certificate's private key, without a passphrase."),
      revokedFile: pathConfig
        .optional()
        .describe("Serial numbers of revoked certificates, in hex, one a line; they apply to all authorities."),
    })
    .describe("Identity of this process, and the authorities that it trusts. The files are reloaded when they change."),
  { checkFiles: (files: TlsFiles) => problemsOfTlsFiles(files, Date.now()) },
);

/** A certificate and its private key, for an API that needs another certificate than that of `tls`. */
export const keyPairConfig = withFacts(
  z.strictObject({
    certFile: pathConfig.describe("PEM: the certificate."),
    keyFile: privateFileConfig.describe("PEM: its private key, without a passphrase."),
    caFile: pathConfig
      .optional()
      .describe("PEM: the authorities that signed the certificate, unless they are public or those of `tls`."),
  }),
  {
    checkFiles: (files: Pick<TlsFiles, "certFile" | "keyFile"> & { caFile?: string | undefined }) =>
      problemsOfPair(files, Date.now()),
  },
);

/** The NATS servers that director and agents communicate over. */
export const natsConfig = z
  .strictObject({
    servers: z.array(z.string().min(1)).min(1).max(100).describe('Servers as "host:port", tried in turn.'),
    tls: tlsConfig.optional().describe("Identity of this process for NATS; `tls` by default."),
  })
  .describe("NATS servers that director and agents communicate over.");

/** Storage of a service's state. One process leads; others may stand by. */
export function tabletConfig(defaultName: string) {
  const storage = z
    .union([z.string().regex(/^[a-z][a-z0-9+.-]*:\/\//i), pathConfig])
    .describe("A folder for one process at a time, or a database, `mongodb://db-1:27017/diskmesh`.");
  const leaseTimeMs = durationMsConfig
    .min(1_000)
    .default(5_000)
    .describe(
      "Time without a renewal of the leader's lease after which a standby takes over, on a database; a folder has no standbys. The leader renews the lease five times as often, and acts for four fifths of it.",
    );
  const name = z
    .string()
    .min(1)
    .default(defaultName)
    .describe("Name of this service's state: processes with the same storage and name stand by for each other.");
  const noDatabase = "name the database, e.g. mongodb://db-1:27017/diskmesh, which was formerly the default";
  return z
    .strictObject({ storage: withFacts(partlySecretConfig(storage), { kind: "path, or URL" }), name, leaseTimeMs })
    .refine((tablet) => namesDatabase(tablet.storage), { path: ["storage"], message: noDatabase })
    .describe("Storage of all state.");
}

/**
 * Derives a leader's times from its lease. The leader acts for less time than the lease lasts, because clocks differ.
 * It may miss three renewals in a row before it stops.
 */
export function leaseTimes({ leaseTimeMs }: { readonly leaseTimeMs: number }) {
  return { safeTimeMs: 0.8 * leaseTimeMs, renewIntervalMs: 0.2 * leaseTimeMs };
}

/**
 * Returns false for a database URL without a database name: its default database would be shared with every other
 * service that names none.
 */
function namesDatabase(storage: string): boolean {
  if (!/^mongodb(\+srv)?:\/\//i.test(storage)) return true;
  const [beforeOptions = ""] = storage.split("?");
  const [, , ...hostsAndDatabase] = beforeOptions.split("/");
  return hostsAndDatabase.length >= 2 && hostsAndDatabase.at(-1) !== "";
}

interface LeaderConfig {
  readonly listen: { readonly host: string };
  readonly advertisedAddress?: string | undefined;
  readonly tablet: { readonly storage: string };
}

/** Refuses a config whose standbys would refer callers to an unreachable address such as 0.0.0.0. */
export function reachableLeader<Schema extends z.ZodType<LeaderConfig>>(schema: Schema): Schema {
  return schema.refine(
    ({ listen, advertisedAddress, tablet }) =>
      advertisedAddress !== undefined || !["0.0.0.0", "::"].includes(listen.host) || !tablet.storage.includes("://"),
    {
      path: ["advertisedAddress"],
      message: "needed, because standbys send callers there and others cannot reach the `listen` address",
    },
  );
}

const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host);

export const metricsConfig = z
  .strictObject({
    listen: localListenConfig,
    tls: tlsConfig
      .optional()
      .describe(
        "Clients with a certificate of this authority may read the metrics; use a separate authority for them.",
      ),
  })
  .refine(({ listen, tls }) => tls !== undefined || isLoopback(listen.host), {
    path: ["tls"],
    message: "needed unless listen.host is 127.0.0.1: metrics name disks and CPIs and must not be public",
  })
  .optional()
  .describe("Metrics for Prometheus at /metrics; off if not set.");

export const healthConfig = z
  .strictObject({
    listen: localListenConfig.describe(
      "Listen address. Every client that can connect is answered; use an address other than loopback only for a remote probe.",
    ),
  })
  .optional()
  .describe("Health over plain HTTP at /healthz and /readyz; off if not set.");
