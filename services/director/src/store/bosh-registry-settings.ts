/** The settings that a CPI of version 1 gave the bosh-registry for a VM's agent. */
export interface BoshRegistrySettings {
  /** The CPI's id for it, often the VM's cid. */
  readonly id: string;
  /** JSON, as it came. Holds credentials. */
  readonly settings: string;
  /** The agent's id in the settings; empty when they name none. */
  readonly agentId: string;
}
