import type { AgentJobContext } from "../agents/context.js";
import type { Events } from "../audit/events.js";
import type { DirectorConfig } from "../config/config.js";
import type { CpiJobContext } from "../cpi/context.js";
import type { TaskContext } from "../tasks/context.js";

/** Dependencies of calls that ask a CPI without a task. */
export type CapacityContext = TaskContext & Pick<CpiJobContext, "configs" | "cpi">;

/** The disk registries of the director's hosts. */
interface HostRegistries {
  /** Returns why the VM's host is lost to the disk, as a clause; undefined when no registry says so in time. */
  whyLost(
    vmCid: string,
    diskCid: string,
    options: { readonly signal: AbortSignal; readonly deadlineMs: number },
  ): Promise<string | undefined>;
  /** Has the registry that keeps the deleted disk bring it back; changes nothing when none does. */
  undeleteDisk(diskCid: string, options: { readonly signal: AbortSignal }): Promise<void>;
}

export interface DiskJobContext extends CpiJobContext, AgentJobContext {
  readonly config: DirectorConfig;
  readonly events: Pick<Events, "record" | "begin" | "flush">;
  readonly registries: HostRegistries;
}
