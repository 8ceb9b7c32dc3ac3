import type { DiskId } from "@diskmesh/domain";
import type { ExportSpec } from "../model/memory.js";

/** Has a move go on where it was only in the first try to serve a session: users of an earlier try may have written. */
export class FirstTries {
  /** Last session that was tried, by disk. */
  readonly #tried = new Map<DiskId, number>();

  /** Returns the spec for the next try, in which moves begin at the first byte unless it is the first. */
  of(spec: ExportSpec): ExportSpec {
    const { diskId, sessionNumber, extents } = spec;
    const isFirst = this.#tried.get(diskId) !== sessionNumber;
    this.#tried.set(diskId, sessionNumber);
    if (isFirst) return spec;
    const anew = extents.map((extent) =>
      extent.target === undefined ? extent : { ...extent, target: { ...extent.target, copiedBytes: undefined } },
    );
    return { ...spec, extents: anew };
  }
}
