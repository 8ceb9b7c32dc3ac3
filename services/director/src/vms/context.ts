import type { AgentCertificates } from "../agents/agent-certificates.js";
import type { DiskJobContext } from "../disks/context.js";
import type { AgentSettings } from "../specs/agent-settings.js";

/** The inputs of making VMs beside their CPI. */
interface VmMaking {
  /** The agents' settings in the env of create_vm. */
  readonly agentSettings: AgentSettings;
  /** Undefined when agents get no certificates of their own. */
  readonly agentCertificates: AgentCertificates | undefined;
}

/** Jobs and steps on VMs. */
export interface VmJobContext extends DiskJobContext {
  readonly making: VmMaking;
}
