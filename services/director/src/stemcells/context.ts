import type { DiskJobContext } from "../disks/context.js";
import type { TaskContext } from "../tasks/context.js";
import type { StemcellFiles } from "./stemcell-files.js";

/** The dependencies of stemcell handlers. */
export interface StemcellContext extends TaskContext {
  readonly stemcellFiles: StemcellFiles;
}

/** The dependencies of stemcell jobs. */
export interface StemcellJobContext extends DiskJobContext {
  readonly stemcellFiles: StemcellFiles;
}
