import type { AgentCertificates } from "../agents/agent-certificates.js";
import type { DiskJobContext } from "../disks/context.js";
import type { AgentSettings } from "../specs/agent-settings.js";

interface VmMaking {
  /** Settings that agents get in the env of create_vm. */
  readonly agentSettings: AgentSettings;
  /** Undefined when the director signs no agent certificates. */
  readonly agentCertificates: AgentCertificates | undefined;
}

export interface VmJobContext extends DiskJobContext {
  readonly making: VmMaking;
}
