import { readFile } from "node:fs/promises";
import { messageOf } from "@diskmesh/domain";
import { type Action, textOption } from "../../action.js";
import { type Leak, leaksIn, parseObjects, stagedLeaksIn } from "../../csi-leaks.js";
import { dynamicDisks } from "../../disk-names.js";
import { UsageError } from "../../exit-codes.js";
import type { Columns } from "../../output.js";

const COLUMNS: Columns<Leak> = {
  name: ({ name }) => name,
  volume: ({ volume }) => volume,
  instance: ({ instance }) => instance,
  leak: ({ leak }) => leak,
};

export const csiLeaks: Action = {
  usage: "csi-leaks <deployment> <file>",
  summary:
    "compare a Kubernetes cluster's volumes with the disks of its deployment; the file is what kubectl get persistentvolumes,volumeattachments -o json prints",
  options: [
    [
      "--mounts <file>",
      "also list staged file systems without a volume; the file is what cat /proc/self/mountinfo prints in each node plugin",
    ],
  ],
  example: "diskmesh csi-leaks kubernetes volumes.json",
  run: async ({ mesh, output, args: [deployment = "", file = ""], options }) => {
    const objects = parseObjects(await textOf(file));
    const mounts = textOption(options, "mounts");
    const staged = mounts === "" ? [] : stagedLeaksIn(await textOf(mounts), objects);
    const leaks = leaksIn(await dynamicDisks(mesh, deployment), objects);
    output.list(COLUMNS, [...leaks, ...staged], "no leaks");
  },
};

async function textOf(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: unknown) => {
    throw new UsageError(`cannot read ${file}: ${messageOf(error)}`);
  });
}
