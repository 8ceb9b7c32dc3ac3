import { readFile } from "node:fs/promises";
import { messageOf } from "@diskmesh/domain";
import { dynamicDisks } from "../../mesh/disk-names.js";
import { EndedWith, EXIT_CODES, UsageError } from "../../output/exit-codes.js";
import { type Columns, timeText } from "../../output/output.js";
import { type Action, textOption } from "../action.js";
import { isOfCluster, type Leak, leaksIn, parseObjects, stagedLeaksIn } from "../csi-leaks.js";

const COLUMNS: Columns<Leak> = {
  name: ({ name }) => name,
  volume: ({ volume }) => volume,
  node: ({ node }) => node,
  since: ({ since }) => (since === undefined ? "" : timeText(since)),
  leak: ({ leak }) => leak,
  command: ({ cure }) => cure,
};

export const csiLeaks: Action = {
  usage: "csi-leaks <cluster> <file>",
  summary:
    "compare a Kubernetes cluster's volumes with its disks; the cluster is the `cluster` or `deployment` of its CSI driver's config, the file what kubectl get persistentvolumes,volumeattachments -o json prints",
  options: [
    [
      "--mounts <file>",
      "also list staged file systems without a volume; the file is what cat /proc/self/mountinfo prints in each node plugin",
    ],
  ],
  example: "diskmesh csi-leaks kubernetes volumes.json",
  run: async ({ mesh, output, args: [cluster = "", file = ""], options }) => {
    const objects = parseObjects(await textOf(file));
    const mounts = textOption(options, "mounts");
    const staged = mounts === "" ? [] : stagedLeaksIn(await textOf(mounts), objects);
    const disks = (await dynamicDisks(mesh)).filter((disk) => isOfCluster(disk, cluster));
    const leaks = [...leaksIn(disks, objects), ...staged];
    output.list(COLUMNS, leaks, "no leaks");
    if (leaks.length > 0) throw new EndedWith(EXIT_CODES.failed);
  },
};

async function textOf(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: unknown) => {
    throw new UsageError(`cannot read ${file}: ${messageOf(error)}`);
  });
}
