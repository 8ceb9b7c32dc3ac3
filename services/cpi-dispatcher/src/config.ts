import { tmpdir } from "node:os";
import { join } from "node:path";
import { CPI_NAME_PATTERN, CPI_NAME_RULE } from "@diskmesh/cpi";
import { MIB_BYTES } from "@diskmesh/domain";
import {
  addressesConfig,
  durationMsConfig,
  listenConfig,
  pathConfig,
  rpcLimitsConfig,
  serviceConfig,
  tlsConfig,
} from "@diskmesh/service";
import * as z from "zod";

const name = z.string().regex(CPI_NAME_PATTERN, CPI_NAME_RULE);

/** All registries of which one leads. */
const registryConfig = z.strictObject({ address: addressesConfig });

const fleetCpiConfig = z.strictObject({
  name,
  type: z.literal("fleet"),
  /** The registry whose hosts are this CPI's VMs; the one given for all by default. */
  registry: registryConfig.optional(),
});

const executableCpiConfig = z.strictObject({
  name,
  type: name.refine((type) => type !== "fleet", "the fleet CPI is built in"),
  /** The executable; `<jobsFolder>/<type>_cpi/bin/cpi` by default. */
  execPath: pathConfig.optional(),
  /** Credentials and settings, merged into each request's context. */
  properties: z.record(z.string(), z.unknown()).default({}),
});

/** How CPI executables are run; the limits are for each call. */
const executablesConfig = z
  .strictObject({
    /** Where BOSH installs CPIs. */
    jobsFolder: pathConfig.prefault("/var/vcap/jobs"),
    /** Remembers which processes run, and holds their temporary files. One dispatcher at a time may use it. */
    runFolder: pathConfig.optional(),
    callTimeoutMs: durationMsConfig.default(600_000),
    /** info only says what the CPI is: one that hangs in it shall be noticed soon. */
    infoTimeoutMs: durationMsConfig.default(30_000),
    /** create_stemcell copies an image, perhaps to another continent. */
    createStemcellTimeoutMs: durationMsConfig.default(3_600_000),
    /** How long a CPI whose call was cancelled may clean up, between SIGTERM and SIGKILL. */
    cancelGraceMs: durationMsConfig.default(2_000),
    maxRequestBytes: z.int().min(1_024).default(4_194_304),
    maxAnswerBytes: z.int().min(1_024).default(67_108_864),
    /** Lists and objects within each other in an answer. */
    maxAnswerDepth: z.int().min(8).max(1_000).default(64),
    /** Values in an answer, those within others included. */
    maxAnswerValues: z.int().min(1_000).default(200_000),
    /** Of all answers together that are being read; of too many the longest is refused. */
    maxAnswersBytes: z.int().min(1_024).default(268_435_456),
    maxLogLineLength: z.int().min(80).default(65_536),
    /**
     * What is passed on, in characters: of standard error, and of the log within the answer. The rest is left out. Short
     * lines count as 80.
     */
    maxLogLength: z.int().min(80).default(4_194_304),
    /** How fast standard error is read: a CPI that writes faster waits. */
    maxStderrBytesPerSecond: z.int().min(1_024).default(2_097_152),
    /** Most bytes on standard error: a call that writes more is ended. */
    maxStderrBytes: z.int().min(1_024).default(33_554_432),
    /** Calls of one CPI that run at once; others wait. Above a director's deployments.maxConcurrentVmsPerCpi: disks call, too. */
    maxConcurrentCalls: z.int().min(1).max(1_000).default(40),
    maxWaitingCalls: z.int().min(0).max(100_000).default(1_000),
    /** Takes a CPI whose info method fails for one of version 1, rather than failing the call. */
    assumeV1WhenInfoFails: z.boolean().default(false),
  })
  .prefault({});

/** Above the longest call of a CPI, since a call may wait for its turn before. */
const DEFAULT_MAX_DEADLINE_MS = 2 * 3_600_000;
/** Calls that wait for a CPI count; several CPIs may be slow at once. */
const DEFAULT_MAX_CONCURRENT_CALLS = 10_000;

const settings = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  rpc: rpcLimitsConfig({
    maxConcurrentCalls: DEFAULT_MAX_CONCURRENT_CALLS,
    maxDeadlineMs: DEFAULT_MAX_DEADLINE_MS,
  }),
  registry: registryConfig,
  /** The CPIs of directors without a cpi-config. The first one is the default. */
  cpis: z
    .array(z.union([fleetCpiConfig, executableCpiConfig]))
    .min(1)
    .max(1_000)
    .refine((cpis) => new Set(cpis.map((cpi) => cpi.name)).size === cpis.length, "two CPIs have the same name")
    .default([{ name: "fleet", type: "fleet" }]),
  executables: executablesConfig,
  limits: z
    .strictObject({
      maxDirectors: z.int().min(1).default(100),
      /** CPIs of one cpi-config. */
      maxCpis: z.int().min(1).max(10_000).default(100),
      /** Registries that fleet CPIs name, in all. */
      maxRegistries: z.int().min(1).max(10_000).default(100),
      /** Streams of WatchCpiLog at once. */
      maxLogWatchers: z.int().min(1).default(1_000),
      /** Lines of a CPI's log that wait for a slow reader. */
      maxLogLinesPerReader: z.int().min(1).default(10_000),
      /** What they may take, for one reader and for all. */
      maxLogBytesPerReader: z
        .int()
        .min(65_536)
        .default(4 * MIB_BYTES),
      maxLogBytes: z
        .int()
        .min(65_536)
        .default(64 * MIB_BYTES),
      /** What the cpi-configs that directors told may take in all, as they were told. They hold secrets. */
      maxCpiConfigBytes: z
        .int()
        .min(1_024)
        .default(64 * MIB_BYTES),
      /** How long a cpi-config is kept after a newer one was told: calls that name it may still be on their way. */
      formerCpiConfigMs: durationMsConfig.default(60_000),
    })
    .prefault({}),
});

/**
 * The configuration of a dispatcher process. Refused are limits that others make void: a deadline that ends every call
 * before its CPI's own time is over, and room for calls that the calls of one CPI fill alone.
 */
export const dispatcherConfig = settings.superRefine(({ rpc, executables }, { addIssue }) => {
  for (const setting of ["callTimeoutMs", "createStemcellTimeoutMs"] as const)
    if (executables[setting] > rpc.maxDeadlineMs)
      addIssue({
        code: "custom",
        path: ["executables", setting],
        message: `${executables[setting]} ms is longer than any call may take, ${rpc.maxDeadlineMs} ms (rpc.maxDeadlineMs): lower it, or raise that`,
      });
  const callsOfOneCpi = executables.maxConcurrentCalls + executables.maxWaitingCalls;
  if (callsOfOneCpi >= rpc.maxConcurrentCalls)
    addIssue({
      code: "custom",
      path: ["executables", "maxWaitingCalls"],
      message: `one CPI that hangs could hold ${callsOfOneCpi} calls with maxConcurrentCalls, and the server takes ${rpc.maxConcurrentCalls} (rpc.maxConcurrentCalls): lower it, or raise that`,
    });
});

export type DispatcherConfig = z.output<typeof dispatcherConfig>;

/** Each dispatcher of a machine has a port of its own, and so a folder of its own. */
export function runFolderOf(config: DispatcherConfig): string {
  const { listen, executables } = config;
  return executables.runFolder ?? join(tmpdir(), `diskmesh-cpi-dispatcher-${listen.port || process.pid}`);
}
