import type { DriverHost } from "@diskmesh/driver/host";
import type { Clock, Slots } from "@diskmesh/service";
import type { AgentCertificates } from "../agents/agent-certificates.js";
import type { DirectorConfig } from "../config.js";
import type { CpiCalls } from "../cpi/cpi-calls.js";
import type { LogFiles } from "../instance-logs/log-files.js";
import type { DirectorLimits } from "../limits.js";
import type { LockName } from "../model/locks.js";
import type { AgentSettings } from "../model/vm-spec.js";
import type { CallMemory } from "../passthru/call-memory.js";
import type { Nodes } from "../passthru/nodes.js";
import type { StemcellFiles } from "../stemcells/stemcell-files.js";
import type { DirectorTablet } from "../stored-schema.js";
import type { Events } from "../workers/events.js";
import type { ReadersOfTexts } from "../yaml/readers-of-texts.js";
import type { AgentCalls } from "./agent-calls.js";

/** Steps that call CPIs. */
export interface CpiJobContext {
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly configs: ReadersOfTexts;
  readonly cpi: CpiCalls;
}

/** Steps that ask agents. */
export interface AgentJobContext {
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly agents: AgentCalls;
}

/** Jobs and steps on disks. */
export interface DiskJobContext extends CpiJobContext, AgentJobContext {
  readonly config: DirectorConfig;
  readonly events: Pick<Events, "record" | "begin" | "flush">;
  readonly newId: () => string;
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

/** Jobs and steps on VMs. */
export interface VmJobContext extends DiskJobContext {
  readonly making: VmMaking;
}

/** Jobs and steps on whole deployments. */
export interface DeploymentJobContext extends VmJobContext {
  /** VMs of a CPI that are worked on at once. */
  readonly vmSlots: (cpi: string) => Slots;
}

/** Jobs that find and resolve problems. */
export interface HealthJobContext extends DeploymentJobContext {
  /** The task that holds a lock; undefined for none. */
  readonly lockOwner: (lock: LockName) => number | undefined;
}

/** Jobs on logs of instances. */
export interface LogJobContext extends AgentJobContext {
  readonly logFiles: LogFiles;
}

/** Jobs on stemcells. */
export interface StemcellJobContext extends DiskJobContext {
  readonly stemcellFiles: StemcellFiles;
}

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

/** Jobs that call vendors' methods. */
export interface VendorJobContext {
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly vendors: Vendors;
}

/** All that jobs work with. */
export type JobContext = HealthJobContext & LogJobContext & StemcellJobContext & VendorJobContext;
