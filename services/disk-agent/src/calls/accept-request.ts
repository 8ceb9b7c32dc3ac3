import type { Stamp } from "@diskmesh/domain";
import { acceptRequest } from "../model/orders.js";
import type { AgentContext } from "./context.js";

/**
 * Throws for a request to another start of the agent, of another tablet, or of a replaced leader. Remembers a newer
 * leader.
 */
export function acceptFrom(
  { ledger, bootId }: Pick<AgentContext, "ledger" | "bootId">,
  request: { readonly bootId: string; readonly stamps: readonly Stamp[] },
): void {
  ledger.remember(acceptRequest(ledger.memory, bootId, request));
}
