import { tmpdir } from "node:os";
import { join } from "node:path";
import { CPI_NAME_PATTERN, CPI_NAME_RULE } from "@diskmesh/cpi";
import { MIB_BYTES } from "@diskmesh/domain";
import { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "@diskmesh/rpc";
import {
  addressesConfig,
  durationMsConfig,
  groupConfig,
  listenConfig,
  pathConfig,
  secretConfig,
  serviceConfig,
  tlsConfig,
} from "@diskmesh/service";
import * as z from "zod";

const name = z.string().regex(CPI_NAME_PATTERN, CPI_NAME_RULE).describe("What VMs, disks and azs call it.");

/** All registries of which one leads. */
const registryConfig = z.strictObject({
  address: addressesConfig.describe("Where it is reached: one, or a list of those of which one leads."),
});

const fleetCpiConfig = z.strictObject({
  name,
  type: z.literal("fleet").describe("The fleet CPI, whose VMs are hosts of the registry."),
  registry: registryConfig
    .optional()
    .describe("The registry whose hosts are this CPI's VMs; the one given for all by default."),
});

const executableCpiConfig = z.strictObject({
  name,
  type: name
    .refine((type) => type !== "fleet", "the fleet CPI is built in")
    .describe(
      "`fleet` for the one that is built in, whose VMs are hosts of the registry; else what the executable is found by.",
    ),
  execPath: pathConfig
    .optional()
    .describe("The executable, below `executables.jobsFolder`; `<jobsFolder>/<type>_cpi/bin/cpi` by default."),
  properties: secretConfig(z.record(z.string(), z.unknown()))
    .default({})
    .describe("Credentials and settings, merged into each request's context."),
});

const executablesConfig = z
  .strictObject({
    jobsFolder: pathConfig
      .prefault("/var/vcap/jobs")
      .describe(
        "Where BOSH installs CPIs. No program elsewhere is run as a CPI: whoever updates a cpi-config runs programs of this folder as the dispatcher's user.",
      ),
    runFolder: pathConfig
      .optional()
      .describe("Remembers which processes run, and holds their temporary files. One dispatcher at a time may use it."),
    callTimeoutMs: durationMsConfig.default(600_000).describe("How long a call may take that has no limit of its own."),
    infoTimeoutMs: durationMsConfig
      .default(30_000)
      .describe("info only says what the CPI is: one that hangs in it shall be noticed soon."),
    createStemcellTimeoutMs: durationMsConfig
      .default(3_600_000)
      .describe("create_stemcell copies an image, perhaps to another continent."),
    cancelGraceMs: durationMsConfig
      .default(2_000)
      .describe("How long a CPI whose call was cancelled may clean up, between SIGTERM and SIGKILL."),
    maxRequestBytes: z.int().min(1_024).default(4_194_304).describe("The longest request to a CPI."),
    maxAnswerBytes: z.int().min(1_024).default(67_108_864).describe("The longest answer of a CPI."),
    maxAnswerDepth: z.int().min(8).max(1_000).default(64).describe("Lists and objects within each other in an answer."),
    maxAnswerValues: z.int().min(1_000).default(200_000).describe("Values in an answer, those within others included."),
    maxAnswersBytes: z
      .int()
      .min(1_024)
      .default(268_435_456)
      .describe("Of all answers together that are being read; of too many the longest is refused."),
    maxLogLineLength: z
      .int()
      .min(80)
      .default(65_536)
      .describe("Characters of a line of its log; the rest of it is left out."),
    maxLogLength: z
      .int()
      .min(80)
      .default(4_194_304)
      .describe(
        "What is passed on, in characters: of standard error, and of the log within the answer. The rest is left out. Short lines count as 80.",
      ),
    maxStderrBytesPerSecond: z
      .int()
      .min(1_024)
      .default(2_097_152)
      .describe("How fast standard error is read: a CPI that writes faster waits."),
    maxStderrBytes: z
      .int()
      .min(1_024)
      .default(33_554_432)
      .describe("Most bytes on standard error: a call that writes more is ended."),
    maxConcurrentCalls: z
      .int()
      .min(1)
      .max(1_000)
      .default(40)
      .describe(
        "Calls of one CPI that run at once; others wait. Above a director's deployments.maxConcurrentVmsPerCpi: disks call, too.",
      ),
    maxWaitingCalls: z
      .int()
      .min(0)
      .max(100_000)
      .default(1_000)
      .describe("Calls of one CPI that wait for their turn; more are refused."),
    assumeV1WhenInfoFails: z
      .boolean()
      .default(false)
      .describe("Takes a CPI whose info method fails for one of version 1, rather than failing the call."),
  })
  .prefault({});

export const RPC_LIMITS: RpcServerLimits = {
  ...DEFAULT_RPC_SERVER_LIMITS,
  // Calls that wait for a CPI count; several CPIs may be slow at once.
  maxConcurrentCalls: 10_000,
  // Above the longest call of a CPI, since a call may wait for its turn before.
  maxDeadlineMs: 2 * 3_600_000,
};

const settings = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  registry: registryConfig.describe("The registry whose hosts are the VMs of the fleet CPI."),
  cpis: z
    .array(z.union([fleetCpiConfig, executableCpiConfig]))
    .min(1)
    .max(1_000)
    .refine((cpis) => new Set(cpis.map((cpi) => cpi.name)).size === cpis.length, "two CPIs have the same name")
    .default([
      {
        name: "fleet",
        type: "fleet",
      },
    ])
    .describe("The CPIs of directors without a cpi-config. The first one is the default."),
  executables: executablesConfig.describe("How CPI executables are run; the limits are for each call."),
  limits: groupConfig("What directors may tell and ask.", {
    maxDirectors: z.int().min(1).default(100).describe("Directors that are remembered."),
    maxCpis: z.int().min(1).max(10_000).default(100).describe("CPIs of one cpi-config."),
    maxRegistries: z.int().min(1).max(10_000).default(100).describe("Registries that fleet CPIs name, in all."),
    maxLogWatchers: z.int().min(1).default(1_000).describe("Streams of WatchCpiLog at once."),
    maxLogLinesPerReader: z.int().min(1).default(10_000).describe("Lines of a CPI's log that wait for a slow reader."),
    maxLogBytesPerReader: z
      .int()
      .min(65_536)
      .default(4 * MIB_BYTES)
      .describe("What they may take, for one reader and for all."),
    maxLogBytes: z
      .int()
      .min(65_536)
      .default(64 * MIB_BYTES)
      .describe("What lines may take for all readers together."),
    maxCpiConfigBytes: z
      .int()
      .min(1_024)
      .default(64 * MIB_BYTES)
      .describe("What the cpi-configs that directors told may take in all, as they were told. They hold secrets."),
    formerCpiConfigMs: durationMsConfig
      .default(60_000)
      .describe(
        "How long a cpi-config is kept after a newer one was told: calls that name it may still be on their way.",
      ),
  }),
});

/**
 * The configuration of a dispatcher process. Refused are limits that others make void: a deadline that ends every call
 * before its CPI's own time is over, and room for calls that the calls of one CPI fill alone.
 */
export const dispatcherConfig = settings.superRefine(({ executables }, { addIssue }) => {
  for (const setting of ["callTimeoutMs", "createStemcellTimeoutMs"] as const)
    if (executables[setting] > RPC_LIMITS.maxDeadlineMs)
      addIssue({
        code: "custom",
        path: ["executables", setting],
        message: `${executables[setting]} ms is longer than any call may take, ${RPC_LIMITS.maxDeadlineMs} ms: lower it`,
      });
  const callsOfOneCpi = executables.maxConcurrentCalls + executables.maxWaitingCalls;
  if (callsOfOneCpi >= RPC_LIMITS.maxConcurrentCalls)
    addIssue({
      code: "custom",
      path: ["executables", "maxWaitingCalls"],
      message: `one CPI that hangs could hold ${callsOfOneCpi} calls with maxConcurrentCalls, and the server takes ${RPC_LIMITS.maxConcurrentCalls}: lower it`,
    });
});

export type DispatcherConfig = z.output<typeof dispatcherConfig>;

/** Each dispatcher of a machine has a port of its own, and so a folder of its own. */
export function runFolderOf(config: DispatcherConfig): string {
  const { listen, executables } = config;
  return executables.runFolder ?? join(tmpdir(), `diskmesh-cpi-dispatcher-${listen.port || process.pid}`);
}
