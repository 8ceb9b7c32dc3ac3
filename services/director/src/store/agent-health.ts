import type { JsonObject as Json } from "./json.js";

/** What the agent of a VM last said of itself. */
export interface AgentHealth {
  readonly agentId: string;
  readonly heardAtMs: number;
  /** When its VM was started, as far as it says; 0 when it does not. */
  readonly bootedAtMs: number;
  /** E.g. "running". */
  readonly jobState: string;
  /** What it takes itself for a part of; empty when it has not been told. */
  readonly deployment: string;
  readonly vitals: Json;
}
