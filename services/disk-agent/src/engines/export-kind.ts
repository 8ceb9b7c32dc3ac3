import { ExportKind } from "@diskmesh/api/registry";
import { InvalidArgumentError } from "@diskmesh/domain";
import type { ExportSpec } from "../model/memory.js";

/** Parses the form of an export; undefined when the agent is to choose. */
export function exportKindOf(kind: ExportKind): ExportSpec["exportKind"] {
  if (kind === ExportKind.UNSPECIFIED) return undefined;
  if (kind === ExportKind.DEVICE) return "DEVICE";
  if (kind === ExportKind.NBD) return "NBD";
  throw new InvalidArgumentError("export_kind has a value that this agent does not know", {
    about: { field: "export_kind" },
  });
}
