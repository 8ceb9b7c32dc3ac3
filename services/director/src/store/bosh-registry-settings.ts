/** What a CPI of version 1 told the bosh-registry for a VM's agent. */
export interface BoshRegistrySettings {
  /** The CPI's id for it, often the VM's cid. */
  readonly id: string;
  /** JSON, as it came. Holds credentials. */
  readonly settings: string;
  /** As in the settings; empty when they name none. */
  readonly agentId: string;
}
