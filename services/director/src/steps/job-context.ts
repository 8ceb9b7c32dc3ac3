import type { DriverHost } from "@diskmesh/driver/host";
import type { AgentClient } from "@diskmesh/mbus";
import type { Clock, Slots } from "@diskmesh/service";
import type { AgentCertificates } from "../agents/agent-certificates.js";
import type { BoshRegistryServer } from "../bosh-registry/bosh-registry-server.js";
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
import type { CloudConfigs } from "../yaml/cloud-configs.js";
import type { CpiConfigs } from "../yaml/cpi-configs.js";
import type { Manifests } from "../yaml/manifests.js";
import type { ResurrectionConfigs } from "../yaml/resurrection-configs.js";

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
}

/** What jobs and their steps work with. */
export interface JobContext {
  readonly config: DirectorConfig;
  readonly tablet: DirectorTablet;
  readonly cpi: CpiCalls;
  readonly events: Pick<Events, "record" | "begin" | "flush">;
  readonly agents: AgentClient;
  /** Undefined when agents get no certificates of their own. */
  readonly agentCertificates: AgentCertificates | undefined;
  readonly cloudConfigs: CloudConfigs;
  readonly cpiConfigs: CpiConfigs;
  readonly resurrectionConfigs: ResurrectionConfigs;
  readonly manifests: Manifests;
  readonly boshRegistry: Pick<BoshRegistryServer, "ensureServing">;
  readonly stemcellFiles: StemcellFiles;
  readonly logFiles: LogFiles;
  /** What agents are told in the env of create_vm. */
  readonly agentSettings: AgentSettings;
  /** VMs of a CPI that are worked on at once. */
  readonly vmSlots: (cpi: string) => Slots;
  /** Attachments whose add_dynamic_disk is known to have ended; of others an agent may have it queued still. */
  readonly endedAdds: Set<string>;
  /** The task that holds a lock; undefined for none. */
  readonly lockOwner: (lock: LockName) => number | undefined;
  readonly vendors: Vendors;
  /** For how long an agent has said nothing. */
  readonly silentMsOf: (agentId: string) => number;
  readonly clock: Clock;
  readonly newId: () => string;
  /** In [0, 1), for jitter. */
  readonly random: () => number;
}
