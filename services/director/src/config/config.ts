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
  name: z
    .string()
    .min(1)
    .max(255)
    .default("diskmesh")
    .describe("Name of this director, written into the metadata of disks as in BOSH."),
  listen: listenConfig,
  tls: tlsConfig,
  http: httpConfig.optional().describe("HTTPS API for the bosh CLI; off if not set."),
  advertisedAddress: hostPortConfig
    .optional()
    .describe("Address at which others reach this process; `listen` by default."),
  tablet: tabletConfig("director"),
  dispatcher: z
    .strictObject({ address: addressesConfig.describe("Address of the dispatcher, or a list of addresses.") })
    .describe(
      "All dispatchers; the director uses the first that answers. Removing an address declares that none of this director's calls runs there any more, for example because the machine is off for good.",
    ),
  nats: natsConfig,
  dynamicDisks: groupConfig("Dynamic disks: disks provided at run time. Off by default, as in BOSH.", {
    enabled: z.boolean().default(false).describe("Allows callers to provide disks at run time."),
  }),
  drivers: driversConfig.describe(
    "Vendors' drivers whose methods this director runs. The agents' configs name the drivers of nodes.",
  ),
  nodes: groupConfig("Nodes: the hosts whose vendor methods callers use.", {
    registries: z
      .array(
        z.strictObject({
          address: addressesConfig.describe(
            "Address of the disk-registry, or a list of the addresses of all its processes, of which one leads.",
          ),
        }),
      )
      .max(16)
      .default([])
      .describe("Disk-registries of the nodes, asked in turn."),
  }),
  cpi: groupConfig("Calls of CPIs, through the dispatcher.", {
    callTimeoutMs: durationMsConfig
      .max(CALL_TIMEOUT_MAX_MS)
      .default(11 * MINUTE_MS)
      .describe(
        "Timeout of a CPI call. Keep it above the dispatcher's executables.callTimeoutMs, because the dispatcher ends a slow CPI and then knows the outcome.",
      ),
    preferredApiVersion: z
      .int()
      .min(0)
      .max(100)
      .default(0)
      .describe("Version of the CPI contract for CPIs that support it; 0 for the highest version of each CPI."),
  }),
  stemcells: groupConfig("Stemcells, the images of VMs.", {
    folder: pathConfig
      .prefault("stemcells")
      .describe(
        "Folder that keeps images until the CPIs have imported them; the dispatcher must see it at the same path.",
      ),
    allowPrivateAddresses: z
      .boolean()
      .default(false)
      .describe(
        "Allows stemcell URLs at private addresses, which this process then downloads for any caller who may upload.",
      ),
  }),
  boshRegistry: z
    .strictObject({
      listen: listenConfig,
      user: z.string().min(1).max(255).describe("User name of CPIs and agents."),
      password: secretConfig(z.string().min(1).max(1_024)).describe("Password of CPIs and agents."),
    })
    .optional()
    .describe(
      "The bosh-registry HTTP API, for CPIs and stemcells of version 1. A standby forwards requests to the leader's host, at the port set here.",
    ),
  agents: agentsConfig,
  resurrection: groupConfig("Resurrection: lost VMs are recreated automatically.", {
    enabled: z
      .boolean()
      .default(false)
      .describe("Initial setting, until an operator switches resurrection for all, for a deployment or for a group."),
  }),
  deployments: groupConfig("Deploys.", {
    maxConcurrentVmsPerCpi: z
      .int()
      .min(1)
      .max(1_000)
      .default(32)
      .describe("Maximum number of VMs of one CPI that all tasks together create, update or delete at once."),
    ignoreJobs: z
      .boolean()
      .default(false)
      .describe("Accepts manifests with releases, jobs and addons. None of them runs, and the task warns."),
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
      message: "remove this key: agents.certificates gives each agent its own certificate",
    });
  if (certificates !== undefined && natsIssuerSeedFile === undefined)
    context.addIssue({
      code: "custom",
      path: ["agents", "natsIssuerSeedFile"],
      message: "agents.certificates needs this key: nats-server authenticates clients through the director",
    });
});

export type DirectorConfig = z.output<typeof directorConfig>;
