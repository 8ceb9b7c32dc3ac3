import type { PossibleOrphan } from "@diskmesh/api/director";
import { type Columns, timeText } from "../../output/output.js";
import type { Action } from "../action.js";
import { cureOf, kindOfOrphan, possibleOrphans } from "../orphans.js";

const COLUMNS: Columns<PossibleOrphan> = {
  kind: kindOfOrphan,
  cid: ({ cid }) => cid || "unknown",
  "made for": ({ madeFor }) => madeFor,
  deployment: ({ deployment }) => deployment,
  cpi: ({ cpi }) => cpi,
  since: ({ orphanTime }) => timeText(orphanTime),
  reason: ({ reason }) => reason,
  command: cureOf,
};

export const orphans: Action = {
  usage: "orphans",
  summary: "list VMs, disks and snapshots that may exist although nothing uses them, and the command that removes each",
  example: "diskmesh orphans",
  run: async ({ mesh, output }) => output.list(COLUMNS, await possibleOrphans(mesh), "no possible orphans"),
};
