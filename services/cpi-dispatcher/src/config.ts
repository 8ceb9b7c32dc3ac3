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

const name = z.string().regex(CPI_NAME_PATTERN, CPI_NAME_RULE).describe("What VMs, disks and azs call it.");

/** The addresses of the registry processes, of which a single process leads. */
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
    maxConcurrentCalls: z
      .int()
      .min(1)
      .max(1_000)
      .default(40)
      .describe(
        "Calls of one CPI that run at once; others wait. Above a director's deployments.maxConcurrentVmsPerCpi: disks call, too.",
      ),
    assumeV1WhenInfoFails: z
      .boolean()
      .default(false)
      .describe("Takes a CPI whose info method fails for one of version 1, rather than failing the call."),
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
    .describe("The registry whose hosts are the VMs of the fleet CPI; needed by each one that names none itself."),
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
