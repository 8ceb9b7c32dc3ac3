import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parseArgs } from "node:util";
import { DomainError, hostPortOf, messageOf } from "@diskmesh/domain";
import { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "@diskmesh/rpc";
import { parseDocument } from "yaml";
import * as z from "zod";
import type { MetricsConfig, TelemetryConfig } from "./telemetry-options.js";

/** The config file is missing, unreadable or wrong. The message names the file, each key and what is expected there. */
export class ConfigError extends DomainError {
  override readonly reason = "CONFIG";
}

/** A config is a few hundred lines; another file, given by mistake, must not keep a start waiting. */
const MAX_CONFIG_LENGTH = 128 * 1024;

// zod has no parse context, and parsing is synchronous: while it runs, this is the folder of the file being read.
let configFolder: string | undefined;

/**
 * A path in a config file, made absolute against the file's folder. For a default write `.prefault("data")`: what
 * `.default` gives is not resolved.
 */
export const pathConfig = z
  .string()
  .min(1)
  .transform((path) => resolve(configFolder ?? process.cwd(), path));

/** A time limit in milliseconds, as long as Node's timers can wait. */
export const durationMsConfig = z.int().min(1).max(2_147_483_647);

/** The state of a service of which one process leads and others may stand by. */
export function tabletConfig(defaultName: string) {
  const fields = z.strictObject({
    /** A folder, or the address of a database, `mongodb://...`. */
    storage: z.union([z.string().regex(/^[a-z][a-z0-9+.-]*:\/\//i), pathConfig]),
    name: z.string().min(1).default(defaultName),
    /** Of a leader on a database; in a folder nobody else can lead. */
    lease: z
      .strictObject({
        /** A standby takes over when the leader has not renewed its lease for so long. */
        timeMs: durationMsConfig.default(5_000),
        /** The leader acts for so long after a renewal: less, because no two clocks run alike. */
        safeTimeMs: durationMsConfig.default(4_000),
        renewIntervalMs: durationMsConfig.default(1_000),
      })
      .refine(({ renewIntervalMs, safeTimeMs }) => renewIntervalMs < safeTimeMs, {
        path: ["renewIntervalMs"],
        message: "renewIntervalMs must be below safeTimeMs",
      })
      .refine(({ safeTimeMs, timeMs }) => safeTimeMs < timeMs, {
        path: ["safeTimeMs"],
        message: "safeTimeMs must be below timeMs",
      })
      .prefault({}),
  });
  const noDatabase =
    "name the database, as in mongodb://db-1:27017/diskmesh, which is the one that an address without a name used to mean";
  return fields.refine(({ storage }) => namesDatabase(storage), { path: ["storage"], message: noDatabase });
}

/** An address without a database would share one with whoever forgets to name theirs. */
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

/** Refuses a config with which standbys would send callers to an address such as 0.0.0.0, where nobody is. */
export function reachableLeader<Schema extends z.ZodType<LeaderConfig>>(schema: Schema): Schema {
  return schema.refine(
    ({ listen, advertisedAddress, tablet }) =>
      advertisedAddress !== undefined || !["0.0.0.0", "::"].includes(listen.host) || !tablet.storage.includes("://"),
    {
      path: ["advertisedAddress"],
      message: "give one: standbys send callers there, and nobody can reach what `listen` says",
    },
  );
}

/** Where a server is reached. */
export const hostPortConfig = z.string().refine((text) => hostPortOf(text) !== undefined, 'give "host:port"');

/** `host:port` of a server, or a list of those of which one leads at a time. */
export const addressesConfig = z.union([hostPortConfig, z.array(hostPortConfig).min(1).max(16)]);

/** Where a server listens; port 0 lets the system choose. */
export const listenConfig = z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65_535) });

/** PEM files of the authority, and of the process's own certificate and key. All are read again when they change. */
export const tlsConfig = z.strictObject({
  /** Holds two authorities while one replaces the other. */
  caFile: pathConfig,
  certFile: pathConfig,
  keyFile: pathConfig,
  /** Serial numbers in hex, one a line, of certificates that are refused whoever signed them. */
  revokedFile: pathConfig.optional(),
});

/** The NATS servers that director and agents talk over. */
export const natsConfig = z.strictObject({
  /** As "host:port"; tried in turn. */
  servers: z.array(z.string().min(1)).min(1).max(100),
  /** By default the process's own. */
  tls: tlsConfig.optional(),
  /** Advisories about nats-server that its packager has dealt with under the same version, e.g. CVE-2026-33249. */
  acceptedAdvisories: z.array(z.string().min(1)).max(100).default([]),
});

const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host);

const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Limits of the gRPC server; all have defaults, of which a service may have its own. */
export const rpcLimitsConfig = (defaults: Partial<RpcServerLimits> = {}) => {
  const byDefault = { ...DEFAULT_RPC_SERVER_LIMITS, ...defaults };
  const count = z.int().min(1).max(1_000_000);
  return z
    .strictObject({
      maxMessageBytes: z.int().min(1024).max(1_073_741_824).default(byDefault.maxMessageBytes),
      maxConcurrentCalls: count.default(byDefault.maxConcurrentCalls),
      maxCallsPerPeer: count.default(byDefault.maxCallsPerPeer),
      maxConcurrentStreams: count.default(byDefault.maxConcurrentStreams),
      maxStreamsPerPeer: count.default(byDefault.maxStreamsPerPeer),
      minStreamIdleMs: durationMsConfig.default(byDefault.minStreamIdleMs),
      firstMessageTimeoutMs: durationMsConfig.default(byDefault.firstMessageTimeoutMs),
      maxSilentStreamsPerPeer: count.default(byDefault.maxSilentStreamsPerPeer),
      maxConnections: count.default(byDefault.maxConnections),
      maxConnectionsPerAddress: count.default(byDefault.maxConnectionsPerAddress),
      /** Descriptors of the process that no new connection may take; a quarter of all at most. */
      reservedDescriptors: z.int().min(0).max(1_000_000).default(64),
      maxHandshakes: count.default(byDefault.maxHandshakes),
      maxHandshakesPerAddress: count.default(byDefault.maxHandshakesPerAddress),
      handshakeTimeoutMs: durationMsConfig.default(byDefault.handshakeTimeoutMs),
      maxConnectionAgeMs: durationMsConfig.default(byDefault.maxConnectionAgeMs),
      connectionAgeGraceMs: durationMsConfig.default(byDefault.connectionAgeGraceMs),
      defaultDeadlineMs: durationMsConfig.default(byDefault.defaultDeadlineMs),
      maxDeadlineMs: durationMsConfig.default(byDefault.maxDeadlineMs),
      drainTimeoutMs: durationMsConfig.default(byDefault.drainTimeoutMs),
    })
    .prefault({});
};

const pagedCount = z.int().min(1).max(10_000_000);

/** Limits of lists that are answered page by page; all have defaults. */
export const pagingConfig = z
  .strictObject({
    defaultPageSize: pagedCount.default(100),
    maxPageSize: pagedCount.default(1_000),
    /** Things looked at for one page of a filtered list: a page may be short, or empty, and have a next one. */
    maxScannedPerPage: pagedCount.default(100_000),
    /** Lists that were begun and not read to their end; beyond it the oldest of whoever has the most must begin again. */
    maxKeptLists: pagedCount.default(1_000),
    /**
     * Documents that may change while a list is read, before it must begin again: so many former ones of 1 KiB or so may
     * stay in memory for lists.
     */
    maxKeptChanges: pagedCount.default(200_000),
  })
  .prefault({});

/** What every service's config holds: `z.strictObject({ ...serviceConfig, listen: listenConfig, ... })`. */
export const serviceConfig = {
  log: z
    .strictObject({
      level: z.enum(LOG_LEVELS).default("info"),
      /** Lines that wait in memory while the disk of standard error is full; beyond it they are lost, and counted. */
      maxBacklogBytes: z
        .int()
        .min(4_096)
        .max(1_073_741_824)
        .default(1024 * 1024),
    })
    .prefault({}),
  /** What OTEL_* says holds as everywhere, where this does not say otherwise. */
  telemetry: z
    .strictObject({
      /** The base URL of an OTLP receiver of traces and metrics; `/v1/traces` and `/v1/metrics` are added. */
      otlpEndpoint: z.url({ protocol: /^https?$/ }).optional(),
      /** Ended spans that wait to be sent, of about 4 KiB at most each; more are dropped. */
      maxWaitingSpans: z.int().min(1).max(1_000_000).default(2_048),
      /** The part of traces that is made, from 0 to 1, where the caller has not decided; all by default. */
      sampleRatio: z.number().min(0).max(1).optional(),
      /** Spans of heartbeats and health checks that are part of no other trace. */
      traceHeartbeats: z.boolean().default(false),
      /** Metrics are sent to the receiver so often. */
      metricsIntervalMs: durationMsConfig.default(60_000),
    })
    .prefault({}),
  /** Metrics for Prometheus at /metrics; off unless it is given. */
  metrics: z
    .strictObject({
      listen: z.strictObject({ host: z.string().min(1).default("127.0.0.1"), port: z.int().min(1).max(65_535) }),
      /** Whoever has a certificate of this authority may read the metrics: one of its own for those who do. */
      tls: tlsConfig.optional(),
    })
    .refine(({ listen, tls }) => tls !== undefined || isLoopback(listen.host), {
      path: ["tls"],
      message: "give one, or listen at 127.0.0.1: metrics name disks and CPIs, and are not for everybody on a network",
    })
    .optional(),
  /** Health over plain HTTP at /healthz and /readyz; off unless it is given. */
  health: z
    .strictObject({
      /** Whoever can connect there is answered: an address other than loopback is for a probe that needs one. */
      listen: z.strictObject({ host: z.string().min(1).default("127.0.0.1"), port: z.int().min(1).max(65_535) }),
    })
    .optional(),
  /** How long a stop may take in all before the process exits anyway. */
  stopTimeoutMs: durationMsConfig.default(4_500),
};

export interface ServiceConfig {
  readonly log: { readonly level: LogLevel; readonly maxBacklogBytes: number };
  readonly telemetry: TelemetryConfig;
  readonly metrics?: MetricsConfig | undefined;
  readonly stopTimeoutMs: number;
}

/**
 * Reads the YAML file that `--config FILE` or DISKMESH_CONFIG names and checks it. `argv` is without the program's own
 * name, as in `process.argv.slice(2)`. Keys that the schema does not know are refused.
 */
export function loadConfig<Schema extends z.ZodType>(
  schema: Schema,
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): z.output<Schema> {
  const file = configFileOf(argv, env);
  const content = parseYaml(file);
  const strict = schema instanceof z.ZodObject ? schema.strict() : schema;
  const previous = configFolder;
  configFolder = dirname(file);
  try {
    const parsed = strict.safeParse(content);
    if (parsed.success) return parsed.data as z.output<Schema>;
    throw new ConfigError(`config ${file}: ${parsed.error.issues.flatMap(describeIssue).join("; ")}`);
  } finally {
    configFolder = previous;
  }
}

function configFileOf(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): string {
  let file: string | undefined;
  try {
    file = parseArgs({ args: [...argv], options: { config: { type: "string" } } }).values.config;
  } catch (error) {
    throw new ConfigError(`${messageOf(error)}; usage: --config FILE`, { cause: error });
  }
  file ??= env.DISKMESH_CONFIG;
  if (!file) throw new ConfigError("no config file: give --config FILE or set DISKMESH_CONFIG");
  return resolve(file);
}

function parseYaml(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ConfigError(`cannot read the config file ${file}: ${messageOf(error)}`, { cause: error });
  }
  if (text.length > MAX_CONFIG_LENGTH)
    throw new ConfigError(
      `config ${file} has ${text.length} characters, more than the ${MAX_CONFIG_LENGTH} of any config`,
    );
  // Neither pretty errors nor warnings: both quote the file, which may hold secrets, and take time for each error.
  const document = parseDocument(text, { prettyErrors: false, logLevel: "error" });
  const [error] = document.errors;
  if (error) throw new ConfigError(`config ${file} is not valid YAML: ${error.message} ${placeIn(text, error.pos[0])}`);
  try {
    return document.toJS() ?? {};
  } catch {
    // What was thrown quotes the alias, which may be a password that begins with a star.
    throw new ConfigError(
      `config ${file} has an alias that nothing is named by: put values that begin with * in quotes`,
    );
  }
}

function placeIn(text: string, offset: number): string {
  const lines = text.slice(0, offset).split("\n");
  return `at line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}

/** What zod calls the kinds of values, as people write them in YAML. */
const KINDS: Readonly<Record<string, string>> = {
  object: "a mapping of keys",
  array: "a list",
  string: "a text",
  number: "a number",
};

function describeIssue(issue: z.core.$ZodIssue): string[] {
  const path = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys")
    return issue.keys.map(
      (key) => `${path ? `${path}.${key}` : key}: this key is not known; remove it or check its spelling`,
    );
  const missing = /^Invalid input: expected (.+), received undefined$/.exec(issue.message)?.[1];
  if (missing !== undefined && path !== "")
    return [`${path}: this key is missing; give it (${KINDS[missing] ?? missing})`];
  return [`${path || "the file"}: ${issue.message}`];
}
