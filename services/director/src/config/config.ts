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
import { agentsConfig } from "./agents-config.js";
import { httpConfig } from "./http-config.js";

const MINUTE_MS = 60_000;
/** This maximum lets a dynamic disk task end within its hour: the task may call a CPI twice and retry for a minute. */
const CALL_TIMEOUT_MAX_MS = 29 * MINUTE_MS;

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
  }),
  cpi: groupConfig("Calls of CPIs, through the dispatcher.", {
    callTimeoutMs: durationMsConfig
      .max(CALL_TIMEOUT_MAX_MS)
      .default(11 * MINUTE_MS)
      .describe(
        "Above the dispatcher's executables.callTimeoutMs: it ends a CPI that takes too long, and knows what was done.",
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
    allowPrivateAddresses: z
      .boolean()
      .default(false)
      .describe("Whether those who upload may have this process ask hosts that are not of the internet."),
  }),
  boshRegistry: z
    .strictObject({
      listen: listenConfig,
      user: z.string().min(1).max(255).describe("What CPIs and agents log in as."),
      password: secretConfig(z.string().min(1).max(1_024)).describe("What they log in with."),
    })
    .optional()
    .describe(
      "The bosh-registry HTTP API, for CPIs and stemcells of version 1. A director that stands by asks the one that leads, at its host and the port that is set here.",
    ),
  agents: agentsConfig,
  resurrection: groupConfig("VMs that are gone are made anew without being asked for.", {
    enabled: z
      .boolean()
      .default(false)
      .describe("Whether that is so until an operator switches it, for all, a deployment or a group."),
  }),
  deployments: groupConfig("Deploys.", {
    maxConcurrentVmsPerCpi: z
      .int()
      .min(1)
      .max(1_000)
      .default(32)
      .describe("So many VMs of one CPI are made, updated or deleted at once, by all tasks together."),
    ignoreJobs: z
      .boolean()
      .default(false)
      .describe("Takes manifests with releases, jobs and addons, none of which run, with a warning in the task."),
  }),
});

export const directorConfig = fields.superRefine((config, context) => {
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
