import { tmpdir } from "node:os";
import { join } from "node:path";
import { CPI_NAME_PATTERN, CPI_NAME_RULE } from "@diskmesh/cpi";
import { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "@diskmesh/rpc";
import {
  addressesConfig,
  durationMsConfig,
  listenConfig,
  pathConfig,
  secretConfig,
  serviceConfig,
  tlsConfig,
} from "@diskmesh/service";
import * as z from "zod";

const name = z
  .string()
  .regex(CPI_NAME_PATTERN, CPI_NAME_RULE)
  .describe("Name of the CPI, recorded with VMs, disks and azs.");

/** The addresses of the registry processes, of which a single process leads. */
const registryConfig = z.strictObject({
  address: addressesConfig.describe(
    "Address of the registry, or a list of the addresses of all its processes, of which one leads.",
  ),
});

const fleetCpiConfig = z.strictObject({
  name,
  type: z.literal("fleet").describe("The fleet CPI, whose VMs are hosts of the registry."),
  registry: registryConfig
    .optional()
    .describe("The registry whose hosts are this CPI's VMs; the top-level `registry` by default."),
});

const executableCpiConfig = z.strictObject({
  name,
  type: name
    .refine((type) => type !== "fleet", "type fleet is built in and has no executable")
    .describe(
      "`fleet` for the built-in CPI, whose VMs are hosts of the registry; else the name by which the executable is found.",
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
        "Folder in which BOSH installs CPIs. Only programs in it run as CPIs. Whoever may update a cpi-config can run its programs as the dispatcher's user.",
      ),
    runFolder: pathConfig
      .optional()
      .describe(
        "Folder for records of running processes and for their temporary files. One dispatcher at a time may use it.",
      ),
    callTimeoutMs: durationMsConfig.default(600_000).describe("Timeout of calls that have no timeout of their own."),
    maxConcurrentCalls: z
      .int()
      .min(1)
      .max(1_000)
      .default(40)
      .describe(
        "Maximum concurrent calls of one CPI; further calls wait. Keep it above a director's deployments.maxConcurrentVmsPerCpi, because disks use calls, too.",
      ),
    assumeV1WhenInfoFails: z
      .boolean()
      .default(false)
      .describe("Treats a CPI whose info method fails as a CPI of version 1, instead of failing the call."),
  })
  .prefault({});

export const RPC_LIMITS: RpcServerLimits = {
  ...DEFAULT_RPC_SERVER_LIMITS,
  // Includes calls that wait for a CPI; several CPIs may be slow at the same time.
  maxConcurrentCalls: 10_000,
  // Longer than the longest CPI call, because a call may first wait for a free slot.
  maxDeadlineMs: 2 * 3_600_000,
};

const settings = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  registry: registryConfig
    .optional()
    .describe(
      "The registry whose hosts are the VMs of fleet CPIs; needed by fleet CPIs without a registry of their own.",
    ),
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
  executables: executablesConfig.describe("How CPI executables are run."),
});

/**
 * The configuration of a dispatcher process. Refuses CPI timeouts longer than the maximum deadline of a call, and a
 * fleet CPI without a registry.
 */
export const dispatcherConfig = settings.superRefine(({ registry, cpis, executables }, { addIssue }) => {
  const { callTimeoutMs } = executables;
  const lacking = cpis.find((cpi) => cpi.type === "fleet" && !("registry" in cpi && cpi.registry));
  if (registry === undefined && lacking !== undefined)
    addIssue({
      code: "custom",
      path: ["registry"],
      message: `the fleet CPI ${lacking.name} needs the address of a registry`,
    });
  if (callTimeoutMs > RPC_LIMITS.maxDeadlineMs)
    addIssue({
      code: "custom",
      path: ["executables", "callTimeoutMs"],
      message: `${callTimeoutMs} ms is longer than any call may take, ${RPC_LIMITS.maxDeadlineMs} ms: lower it`,
    });
});

export type DispatcherConfig = z.output<typeof dispatcherConfig>;

/** The folder contains the port, because every dispatcher on a machine needs its own folder. */
export function runFolderOf(config: DispatcherConfig): string {
  const { listen, executables } = config;
  return executables.runFolder ?? join(tmpdir(), `diskmesh-cpi-dispatcher-${listen.port || process.pid}`);
}
