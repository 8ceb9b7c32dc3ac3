import type { JsonObject as Json } from "./json.js";

/** The last heartbeat of a VM's agent. */
export interface AgentHealth {
  readonly agentId: string;
  readonly heardAtMs: number;
  /** The VM's boot time as reported by the agent; 0 when not reported. */
  readonly bootedAtMs: number;
  /** E.g. "running". */
  readonly jobState: string;
  /** The deployment that the director sent to the agent; empty for none. */
  readonly deployment: string;
  readonly vitals: Json;
}
