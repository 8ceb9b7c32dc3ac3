import { type ErrorDetails, InvalidStateError } from "@diskmesh/domain";
import { UNKNOWN_THING_TEXT } from "./running-task.js";

/** Failure reported by an agent that understood the request. `agentMessage` is the agent's own text. */
export class AgentError extends InvalidStateError {
  override readonly reason = "AGENT";
  readonly agentMessage: string;
  /** True when the agent does not know the object that the request names, e.g. a disk. */
  readonly isOfUnknownThing: boolean;

  constructor(agentId: string, method: string, agentMessage: string, details: ErrorDetails = {}) {
    super(`agent ${agentId} failed ${method}: ${agentMessage}`, {
      ...details,
      about: { agent_id: agentId, method, ...details.about },
    });
    this.agentMessage = agentMessage;
    this.isOfUnknownThing = agentMessage.includes(UNKNOWN_THING_TEXT);
  }
}
