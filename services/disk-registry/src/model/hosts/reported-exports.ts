import type { DiskId, HostId } from "@diskmesh/domain";
import { mayHaveGiven } from "../devices/counters.js";
import type { RegistryTables } from "../store/schema.js";

/** A disk that an agent serves. */
export interface ReportedExport {
  readonly diskId: DiskId;
  readonly sessionNumber: number;
  /** True when the export went on while the agent restarted. */
  readonly wentOn?: boolean;
}

interface UnwantedExports {
  /** Exports of known disks. */
  readonly strayExports: readonly ReportedExport[];
  /** Exports of disks that this registry never created; they may be in use. */
  readonly unknownExports: readonly ReportedExport[];
}

/** Returns the exports that the host should not serve. */
export function unwantedExports(
  tables: RegistryTables,
  { hostId, exports }: { readonly hostId: HostId; readonly exports: readonly ReportedExport[] },
): UnwantedExports {
  const [strayExports, unknownExports]: [ReportedExport[], ReportedExport[]] = [[], []];
  for (const entry of exports) {
    const disk = tables.disks.get(entry.diskId);
    if (disk?.publication?.hostId === hostId && disk.publication.state !== "UNPUBLISHING") continue;
    const isKnown = disk !== undefined || mayHaveGiven(tables, "session_number", entry.sessionNumber);
    (isKnown ? strayExports : unknownExports).push(entry);
  }
  return { strayExports, unknownExports };
}
