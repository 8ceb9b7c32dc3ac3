import type { DriverHost } from "@diskmesh/driver/host";
import type { Clock, Slots } from "@diskmesh/service";
import type { AgentCertificates } from "../agents/agent-certificates.js";
import type { DirectorConfig } from "../config.js";
import type { CpiCalls } from "../cpi/cpi-calls.js";
import type { LogFiles } from "../instance-logs/log-files.js";
import type { LockName } from "../model/locks.js";
import type { AgentSettings } from "../model/vm-spec.js";
import type { CallMemory } from "../passthru/call-memory.js";
import type { Nodes } from "../passthru/nodes.js";
import type { StemcellFiles } from "../stemcells/stemcell-files.js";
import type { DirectorTablet } from "../stored-schema.js";
import type { Events } from "../workers/events.js";
import type { ReadersOfTexts } from "../yaml/readers-of-texts.js";
import type { AgentCalls } from "./agent-calls.js";

/** Where vendors' methods are run. */
interface Vendors {
  /** The director's own drivers. */
  readonly host: Pick<DriverHost, "call" | "hide">;
  readonly nodes: Pick<Nodes, "find">;
  readonly memory: CallMemory;
  /** Of this start of the director: what its drivers had begun before has ended. */
  readonly startId: string;
  readonly asyncTimeoutMs: number;
  /** For an agent to answer: that a method goes on, at the latest. */
  readonly callTimeoutMs: number;
  /** In [0, 1), for jitter. */
  readonly random: () => number;
}

/** What VMs are made with beside their CPI. */
interface VmMaking {
  /** Serves VMs whose CPI or stemcell is of version 1. */
  readonly boshRegistry: { ensureServing(): Promise<void> };
  /** What agents are told in the env of create_vm. */
  readonly agentSettings: AgentSettings;
  /** Undefined when agents get no certificates of their own. */
  readonly agentCertificates: AgentCertificates | undefined;
}

/** What jobs and their steps work with. */
export interface JobContext {
  readonly config: DirectorConfig;
  readonly tablet: DirectorTablet;
  readonly cpi: CpiCalls;
  readonly events: Pick<Events, "record" | "begin" | "flush">;
  readonly agents: AgentCalls;
  readonly configs: ReadersOfTexts;
  readonly making: VmMaking;
  readonly stemcellFiles: StemcellFiles;
  readonly logFiles: LogFiles;
  /** VMs of a CPI that are worked on at once. */
  readonly vmSlots: (cpi: string) => Slots;
  /** The task that holds a lock; undefined for none. */
  readonly lockOwner: (lock: LockName) => number | undefined;
  readonly vendors: Vendors;
  readonly clock: Clock;
  readonly newId: () => string;
}
