import { parseHostId, parseId, parseName } from "@diskmesh/domain";
import { addressesConfig, pathConfig, serviceConfig, tlsConfig } from "@diskmesh/service";
import * as z from "zod";

const { rpc: _, ...processConfig } = serviceConfig;

const checked = (parse: (field: string, value: string) => string) =>
  z.string().superRefine((value, { addIssue }) => {
    try {
      parse("it", value);
    } catch (error) {
      addIssue({ code: "custom", message: (error as Error).message });
    }
  });

const name = checked(parseName);

/** Values of topology segments have these limits in Kubernetes. */
const SEGMENT = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const SEGMENT_RULE = "Kubernetes allows 63 letters, digits and '-_.', the first and last a letter or digit";

const az = name.refine((value) => SEGMENT.test(value), SEGMENT_RULE);
const hostId = checked((field, value) => parseHostId(value, field)).refine(
  (value) => SEGMENT.test(value),
  SEGMENT_RULE,
);

/** Adds an issue unless exactly one of the two keys is given. */
const oneOf =
  <Key extends string>(one: Key, other: Key) =>
  (value: Readonly<Partial<Record<Key, unknown>>>, { addIssue }: z.RefinementCtx): void => {
    if ((value[one] === undefined) === (value[other] === undefined))
      addIssue({ code: "custom", message: `give either ${one} or ${other}` });
  };

const controllerConfig = z
  .strictObject({
    director: z
      .strictObject({
        address: addressesConfig.describe("Address of the director, or a list of the addresses of all its processes."),
      })
      .describe("The director that manages the disks."),
    tls: tlsConfig.describe(
      "Certificate with the role csi, and the trusted authorities. Reloaded when the files change.",
    ),
    cluster: name
      .optional()
      .describe(
        "Name of this orchestrator's cluster where its nodes are hosts, instead of `deployment`. Volumes of other names are not its own.",
      ),
    deployment: name
      .optional()
      .describe(
        "Deployment whose instances are the nodes, instead of `cluster`. The disks of all volumes belong to it: its deletion deletes them.",
      ),
    azs: z
      .array(az)
      .min(1)
      .max(100)
      .describe("AZs of volumes for which the orchestrator requires none, in order of preference."),
  })
  .superRefine(oneOf("cluster", "deployment"));

const nodeConfig = z
  .strictObject({
    hostId: hostId.optional().describe("ID of this node's host; its node ID for the orchestrator is host/ID."),
    instanceId: checked(parseId)
      .refine((value) => SEGMENT.test(value), SEGMENT_RULE)
      .optional()
      .describe("ID of this node's instance, instead of `hostId`: its node ID for the orchestrator."),
    az: az.describe("AZ of this node's host or instance."),
    exportsFolder: pathConfig
      .prefault("/var/lib/diskmesh/agent/exports")
      .describe(
        "Folder in which the agent of this node's host offers disks: `exports` in its `baseFolder`. For `hostId`.",
      ),
    dynamicDisksFolder: pathConfig
      .prefault("/var/vcap/data/dynamic_disks")
      .describe("Folder in which the agent of this node's VM links disks by their CID. For `instanceId`."),
    mountFolders: z
      .array(pathConfig)
      .min(1)
      .max(10)
      .prefault(["/var/lib/kubelet"])
      .describe("Folders of the orchestrator below which volumes are mounted and unmounted; other paths are refused."),
    stateFolder: pathConfig
      .prefault("/var/lib/diskmesh/csi-node")
      .describe("Folder for the record of the devices on which a file system was made. It must outlive a restart."),
  })
  .superRefine(oneOf("hostId", "instanceId"));

const dockerConfig = z.strictObject({
  socket: pathConfig
    .prefault("/run/docker/plugins/diskmesh.sock")
    .describe("Unix socket on which Docker finds the plugin; its file's name is the driver's name for Docker."),
  folder: pathConfig.prefault("/var/lib/diskmesh/docker").describe("Folder in which volumes are mounted."),
  pool: name
    .prefault("default")
    .describe("Pool of volumes that are created without the option `pool`, with `controller.cluster`."),
  diskType: name
    .prefault("default")
    .describe("Disk type of volumes that are created without the option `diskType`, with `controller.deployment`."),
});

export const csiConfig = z.strictObject({
  ...processConfig,
  maxVolumesPerNode: z
    .int()
    .min(0)
    .max(10_000)
    .default(0)
    .describe("Maximum volumes on one node; 0: no limit. Must be equal for the controller and all nodes."),
  controller: controllerConfig.optional().describe("The controller's part; needed with `--controller` and `--docker`."),
  node: nodeConfig.optional().describe("The node's part; needed with `--node` and `--docker`."),
  docker: dockerConfig.optional().describe("The volume plugin for Docker; needed with `--docker`."),
});

export type CsiConfig = z.output<typeof csiConfig>;
export type ControllerConfig = NonNullable<CsiConfig["controller"]>;
