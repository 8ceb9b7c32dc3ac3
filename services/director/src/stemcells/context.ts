import type { DiskJobContext } from "../disks/context.js";
import type { TaskContext } from "../tasks/context.js";
import type { StemcellFiles } from "./stemcell-files.js";

export interface StemcellContext extends TaskContext {
  readonly stemcellFiles: StemcellFiles;
}

export interface StemcellJobContext extends DiskJobContext {
  readonly stemcellFiles: StemcellFiles;
}
