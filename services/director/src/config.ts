import { MIB_BYTES } from "@diskmesh/domain";
import { driversConfig } from "@diskmesh/driver/host";
import {
  addressesConfig,
  durationMsConfig,
  groupConfig,
  hostPortConfig,
  listenConfig,
  natsConfig,
  pathConfig,
  secretConfig,
  serviceConfig,
  tabletConfig,
  tlsConfig,
} from "@diskmesh/service";
import * as z from "zod";
import { agentsConfig } from "./agents/agents-config.js";
import { httpConfig } from "./http/http-config.js";
import { limitsConfig } from "./limits-config.js";
import { contradictions } from "./model/time-limits.js";

const HOUR_MS = 3_600_000;
const GIB_BYTES = 1024 * MIB_BYTES;
const largeSizeBytes = z
  .int()
  .min(1)
  .max(1024 * GIB_BYTES);
const count = z.int().min(1).max(1_000_000);
const sizeBytes = z
  .int()
  .min(1)
  .max(64 * 1024 * 1024);

/** One queue of tasks. */
function queueConfig(defaults: {
  readonly workers: number;
  readonly maxTasks: number;
  readonly taskTimeoutMs: number;
}) {
  return z
    .strictObject({
      workers: count
        .default(defaults.workers)
        .describe(
          "Tasks that run at once of those that have to do with the same CPIs. Those that ask none that hangs wait for none.",
        ),
      maxTasks: count
        .default(defaults.maxTasks)
        .describe(
          "Most tasks that have not ended. The last sixth of the places is kept for tasks that ask CPIs which hardly any other asks.",
        ),
      taskTimeoutMs: durationMsConfig
        .default(defaults.taskTimeoutMs)
        .describe(
          "How long a task may take from the moment a worker took it: above the hour that a vendor method of an agent may take.",
        ),
    })
    .prefault({});
}

const fields = z.strictObject({
  ...serviceConfig,
  name: z.string().min(1).max(255).default("diskmesh").describe("Written into the metadata of disks, as BOSH does."),
  listen: listenConfig,
  tls: tlsConfig,
  http: httpConfig.optional().describe("The HTTPS face, for the bosh CLI; off unless it is given."),
  advertisedAddress: hostPortConfig.optional().describe("Where others reach this process; `listen` by default."),
  tablet: tabletConfig("director"),
  dispatcher: z
    .strictObject({ address: addressesConfig.describe("Where they are reached: one, or a list.") })
    .describe(
      "All dispatchers: the first of them that answers is used. Taking one out says that nothing of this director runs there, as when its machine is off for good.",
    ),
  nats: natsConfig,
  dynamicDisks: groupConfig(
    "Off unless said otherwise, as in BOSH: disks at run time are a right that operators grant.",
    { enabled: z.boolean().default(false).describe("Whether disks may be provided at run time.") },
  ),
  queues: groupConfig("Tasks wait and run in queues: what takes an hour in one holds up nothing in another.", {
    urgent: queueConfig({ workers: 4, maxTasks: 1_000, taskTimeoutMs: HOUR_MS }).describe(
      "Tasks that operators wait for.",
    ),
    normal: queueConfig({ workers: 4, maxTasks: 200, taskTimeoutMs: 24 * HOUR_MS }).describe(
      "Deploys and all that is like them. Their tasks hold manifests.",
    ),
    dynamicDisks: queueConfig({ workers: 16, maxTasks: 10_000, taskTimeoutMs: HOUR_MS }).describe(
      "Tasks of dynamic disks.",
    ),
    vendorMethods: queueConfig({ workers: 8, maxTasks: 10_000, taskTimeoutMs: 24 * HOUR_MS }).describe(
      "For the methods of each node, and of each driver. Their tasks hold arguments. Half of maxTasks may be of one login.",
    ),
  }),
  locks: groupConfig(
    "Of the locks on instances and disk names. Those on deployments last as long as a task of the normal queue may.",
    {
      deadlineMs: durationMsConfig
        .optional()
        .describe(
          "How long their owner may give no sign of life; by default a minute more than a CPI call or a request may take.",
        ),
      acquireTimeoutMs: durationMsConfig.default(60_000).describe("How long a task waits for a lock before it fails."),
    },
  ),
  tasks: groupConfig("Tasks and their outputs.", {
    maxKeptTasks: count
      .default(2_000)
      .describe(
        "So many ended tasks are kept, with their outputs. Of one without those, 2,000 characters of result and names.",
      ),
    maxEventsPerTask: count.default(10_000).describe("Lines of the progress of one task."),
    maxOutputLinesPerTask: count.default(100_000).describe("Of what CPIs write, and of what was asked of them."),
    maxOutputBytesPerTask: largeSizeBytes
      .default(16 * MIB_BYTES)
      .describe("Of each of a task's outputs: events, what CPIs write, what was asked of them."),
    maxKeptOutputBytes: largeSizeBytes
      .default(4 * GIB_BYTES)
      .describe("Outputs of all ended tasks that are kept; beyond it the oldest tasks are forgotten."),
    maxWaitingOutputBytes: largeSizeBytes
      .default(64 * MIB_BYTES)
      .describe("Lines of all tasks that wait in memory for the storage; beyond it lines are lost."),
    answerMarginMs: durationMsConfig.default(500).describe("A call with `wait` answers so long before its deadline."),
  }),
  events: groupConfig("Who did what to what.", {
    maxCount: count
      .default(100_000)
      .describe("Events that are kept, and up to a tenth more; beyond it the oldest are dropped."),
  }),
  drivers: driversConfig.describe(
    "Vendors' drivers whose own methods this director runs. Those of nodes are in the configs of the agents.",
  ),
  nodes: groupConfig("Hosts, whose vendor methods are called.", {
    registries: z
      .array(
        z.strictObject({
          address: addressesConfig.describe("Where it is reached: one, or a list of those of which one leads."),
        }),
      )
      .max(16)
      .default([])
      .describe("The disk registries that know them, asked in turn; each may be a list of those of which one leads."),
    requestTimeoutMs: durationMsConfig.default(10_000).describe("For a question of the registry, or of an agent."),
    callTimeoutMs: durationMsConfig
      .default(30_000)
      .describe("For a method of a node that somebody waits for: above the 20 s that the agent gives it."),
    knownForMs: durationMsConfig
      .default(30_000)
      .describe(
        "So long an agent's address and methods are not asked for again, unless it says that they have changed.",
      ),
    maxConnections: count.default(1_000).describe("Agents to which a connection is kept."),
    maxLastErrors: count
      .default(10_000)
      .describe("Nodes of which the last error is kept; beyond that the oldest is forgotten."),
  }),
  cpi: groupConfig("Calls of CPIs, through the dispatcher.", {
    callTimeoutMs: durationMsConfig
      .default(660_000)
      .describe(
        "Above the dispatcher's executables.callTimeoutMs: it ends a CPI that takes too long, and knows what was done.",
      ),
    retryTimeoutMs: durationMsConfig.default(60_000).describe("How long a call that failed in passing is repeated."),
    endTimeoutMs: durationMsConfig
      .default(10_000)
      .describe(
        "How long a dispatcher may take to end a CPI call, when a task is cancelled or the call was lost: above its cancelGraceMs.",
      ),
    preferredApiVersion: z
      .int()
      .min(0)
      .max(100)
      .default(0)
      .describe("The version of the CPI contract to speak with CPIs that know it; 0 for the highest."),
  }),
  stemcells: groupConfig("Stemcells: what VMs are made of.", {
    folder: pathConfig
      .prefault("stemcells")
      .describe("Where images are kept until the CPIs have them; the dispatcher must see them under the same path."),
    maxUploadBytes: largeSizeBytes
      .default(8 * GIB_BYTES)

      .describe("Of the tgz."),
    maxUnpackedBytes: largeSizeBytes.default(32 * GIB_BYTES).describe("Of all that it unpacks to."),
    maxEntries: count.default(100).describe("Entries of the tgz."),
    maxConcurrentUploads: count.default(4).describe("Uploads at once."),
    idleTimeoutMs: durationMsConfig.default(60_000).describe("How long the next bytes of an upload may take."),
    downloadTimeoutMs: durationMsConfig.default(HOUR_MS).describe("How long getting one from elsewhere may take."),
    allowPrivateAddresses: z
      .boolean()
      .default(false)
      .describe("Whether those who upload may have this process ask hosts that are not of the internet."),
    createTimeoutMs: durationMsConfig.default(HOUR_MS).describe("How long CPIs may take to make one."),
  }),
  boshRegistry: z
    .strictObject({
      listen: listenConfig,
      user: z.string().min(1).max(255).describe("What CPIs and agents log in as."),
      password: secretConfig(z.string().min(1).max(1_024)).describe("What they log in with."),
      maxSettingsBytes: sizeBytes.default(1024 * 1024).describe("Settings of one VM."),
      maxInstances: count.default(10_000).describe("VMs whose settings are kept."),
      requestTimeoutMs: durationMsConfig.default(30_000).describe("Time for a request to come whole and be answered."),
      maxConnections: count.default(1_000).describe("Connections at once; more are cut at once."),
    })
    .optional()
    .describe(
      "The bosh-registry HTTP API, for CPIs and stemcells of version 1. It is served only once something needs it.",
    ),
  agents: agentsConfig,
  resurrection: groupConfig("VMs that are gone are made anew without being asked for.", {
    enabled: z
      .boolean()
      .default(false)
      .describe("Whether that is so until an operator switches it, for all, a deployment or a group."),
    silentAfterMs: durationMsConfig
      .default(120_000)
      .describe(
        "An agent is silent for so long before its VM's CPI is asked whether the VM is gone: above two heartbeats.",
      ),
    deadAfterMs: durationMsConfig
      .default(600_000)
      .describe("A VM whose agent is silent for so long is made anew even if its CPI has it."),
    checkIntervalMs: durationMsConfig.default(5_000).describe("How often VMs are looked for that are gone."),
  }),
  deployments: groupConfig("Deploys.", {
    maxConcurrentVmsPerCpi: count
      .default(32)
      .describe("So many VMs of one CPI are made, updated or deleted at once, by all tasks together."),
    ignoreJobs: z
      .boolean()
      .default(false)
      .describe("Takes manifests with releases, jobs and addons, none of which run, with a warning in the task."),
  }),
  page: groupConfig("The page for browsers, a part of the HTTPS face.", {
    maxViewers: count
      .default(50)
      .describe("Browsers that are told of changes at once; half of them may be of one login."),
    sendIntervalMs: durationMsConfig.default(250).describe("How often at most each is told what has changed."),
    beatIntervalMs: durationMsConfig.default(5_000).describe("How often at least each hears that it is still told."),
    stuckAfterMs: durationMsConfig
      .default(60_000)
      .describe("A task that waits so long for a worker, or for a CPI's answer, is shown as stuck."),
    lingerMs: durationMsConfig.default(10_000).describe("How long things are followed on once nobody looks any more."),
  }),
  limits: limitsConfig,
});

/** The director's config file. */
export const directorConfig = fields.superRefine((config, context) => {
  for (const { path, message } of contradictions(config)) context.addIssue({ code: "custom", path, message });
  const addresses = [config.dispatcher.address].flat();
  if (new Set(addresses).size < addresses.length)
    context.addIssue({ code: "custom", path: ["dispatcher", "address"], message: "names a dispatcher twice" });
  const { settings, certificates, natsIssuerSeedFile } = config.agents;
  if (certificates !== undefined && settings.mbus?.cert !== undefined)
    context.addIssue({
      code: "custom",
      path: ["agents", "settings", "mbus", "cert"],
      message: "leave it out: agents.certificates gives each agent its own",
    });
  if (certificates !== undefined && natsIssuerSeedFile === undefined)
    context.addIssue({
      code: "custom",
      path: ["agents", "natsIssuerSeedFile"],
      message: "agents.certificates needs it: nats-server asks the director whom to let in",
    });
});

export type DirectorConfig = z.output<typeof directorConfig>;
