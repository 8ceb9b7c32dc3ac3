import { type ErrorDetails, InvalidStateError } from "@diskmesh/domain";

/** An agent understood the request and said that it failed. `agentMessage` is the agent's own text. */
export class AgentError extends InvalidStateError {
  override readonly reason = "AGENT";
  readonly agentMessage: string;

  constructor(agentId: string, method: string, agentMessage: string, details: ErrorDetails = {}) {
    super(`agent ${agentId} failed ${method}: ${agentMessage}`, {
      ...details,
      about: { agent_id: agentId, method, ...details.about },
    });
    this.agentMessage = agentMessage;
  }
}
