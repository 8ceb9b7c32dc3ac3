import type { DiskJobContext } from "../disks/context.js";
import type { TaskContext } from "../tasks/context.js";
import type { StemcellFiles } from "./stemcell-files.js";

/** Handlers of stemcells. */
export interface StemcellContext extends TaskContext {
  readonly stemcellFiles: StemcellFiles;
}

/** Jobs on stemcells. */
export interface StemcellJobContext extends DiskJobContext {
  readonly stemcellFiles: StemcellFiles;
}
