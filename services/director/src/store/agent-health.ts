import type { JsonObject as Json } from "./json.js";

/** The last report of a VM's agent. */
export interface AgentHealth {
  readonly agentId: string;
  readonly heardAtMs: number;
  /** When its VM was started, as far as it says; 0 when it does not. */
  readonly bootedAtMs: number;
  /** E.g. "running". */
  readonly jobState: string;
  /** The deployment that the agent was told; empty when it was told none. */
  readonly deployment: string;
  readonly vitals: Json;
}
