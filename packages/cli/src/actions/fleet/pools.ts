import type { PoolCapacity } from "@diskmesh/api/registry";
import { type Columns, sizeText } from "../../output/output.js";
import { type Action, textOption } from "../action.js";

const COLUMNS: Columns<PoolCapacity> = {
  pool: ({ pool }) => pool,
  az: ({ az }) => az,
  total: ({ totalBytes }) => sizeText(totalBytes),
  free: ({ freeBytes }) => sizeText(freeBytes),
  deleted: ({ deletedBytes }) => sizeText(deletedBytes),
  "for repair": ({ repairBytes }) => sizeText(repairBytes),
  "largest disk": ({ maxDiskBytes }) => sizeText(maxDiskBytes),
  "in one part": ({ maxPartBytes }) => sizeText(maxPartBytes),
};

export const pools: Action = {
  usage: "pools",
  summary:
    "list the pools by az: total and free space, space of deleted disks, space to keep free so that any host can be emptied, largest disk that fits",
  options: [["--az <az>", "only this az"]],
  example: "diskmesh pools --sort -free",
  run: async ({ mesh, output, options }) => {
    const { pools: found } = await mesh.registry.getCapacity({ az: textOption(options, "az") });
    output.list(COLUMNS, found, "no pool has an attached device");
  },
};
