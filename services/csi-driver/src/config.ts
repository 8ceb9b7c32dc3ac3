import { parseId, parseName } from "@diskmesh/domain";
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
const az = name.refine(
  (value) => /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(value),
  "Kubernetes allows 63 letters, digits and '-_.', the first and last a letter or digit",
);

const controllerConfig = z.strictObject({
  director: z
    .strictObject({
      address: addressesConfig.describe("Address of the director, or a list of the addresses of all its processes."),
    })
    .describe("The director that manages the disks."),
  tls: tlsConfig.describe(
    "Certificate with the role csi, and the trusted authorities. Reloaded when the files change.",
  ),
  deployment: name.describe("Deployment that the disks of all volumes belong to. Its deletion deletes the volumes."),
  azs: z
    .array(az)
    .min(1)
    .max(100)
    .describe("AZs of volumes for which the orchestrator requires none, in order of preference."),
});

const nodeConfig = z.strictObject({
  instanceId: checked(parseId).describe("ID of this node's instance: its node ID for the orchestrator."),
  az: az.describe("AZ of this node's instance."),
  dynamicDisksFolder: pathConfig
    .prefault("/var/vcap/data/dynamic_disks")
    .describe("Folder in which the agent of this node links disks by their CID."),
  mountFolders: z
    .array(pathConfig)
    .min(1)
    .max(10)
    .prefault(["/var/lib/kubelet"])
    .describe("Folders of the orchestrator below which volumes are mounted and unmounted; other paths are refused."),
  stateFolder: pathConfig
    .prefault("/var/lib/diskmesh/csi-node")
    .describe("Folder for the record of the devices on which a file system was made. It must outlive a restart."),
});

const dockerConfig = z.strictObject({
  socket: pathConfig
    .prefault("/run/docker/plugins/diskmesh.sock")
    .describe("Unix socket on which Docker finds the plugin; its file's name is the driver's name for Docker."),
  folder: pathConfig.prefault("/var/lib/diskmesh/docker").describe("Folder in which volumes are mounted."),
  diskType: name.describe("Disk type of volumes that are created without the option `diskType`."),
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
