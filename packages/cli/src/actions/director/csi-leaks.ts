import { readFile } from "node:fs/promises";
import { messageOf } from "@diskmesh/domain";
import type { Action } from "../../action.js";
import { type Leak, leaksIn, parseObjects } from "../../csi-leaks.js";
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
  options: [],
  example: "diskmesh csi-leaks kubernetes volumes.json",
  run: async ({ mesh, output, args: [deployment = "", file = ""] }) => {
    const text = await readFile(file, "utf8").catch((error: unknown) => {
      throw new UsageError(`cannot read the volumes: ${messageOf(error)}`);
    });
    const leaks = leaksIn(await dynamicDisks(mesh, deployment), parseObjects(text));
    output.list(COLUMNS, leaks, "no leaks");
  },
};
