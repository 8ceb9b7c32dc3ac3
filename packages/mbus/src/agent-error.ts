import { type ErrorDetails, InvalidStateError } from "@diskmesh/domain";
import { UNKNOWN_THING_TEXT } from "./running-task.js";

/** An agent understood the request and said that it failed. `agentMessage` is the agent's own text. */
export class AgentError extends InvalidStateError {
  override readonly reason = "AGENT";
  readonly agentMessage: string;
  /** It knows no such thing as it was asked about, e.g. a disk. */
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
