/** The settings that a CPI of contract version 1 stored in the bosh-registry for a VM's agent. */
export interface BoshRegistrySettings {
  /** The key chosen by the CPI, often the VM's cid. */
  readonly id: string;
  /** JSON exactly as received. Contains credentials. */
  readonly settings: string;
  /** The agent id within the settings; empty when the settings contain none. */
  readonly agentId: string;
}
