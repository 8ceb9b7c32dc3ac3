import { parseId, quoted } from "@diskmesh/domain";

/**
 * Every NATS subject of the mesh is built or taken apart here. Each variable token went through parseId, so that no id
 * can hold a dot or a wildcard and widen a subject.
 */

/** Where an agent takes requests. */
export const agentSubject = (agentId: string): string => `agent.${parseId("agent_id", agentId)}`;

/** Where one director process takes all replies. */
export const repliesSubject = (directorId: string): string => `director.${parseId("director_id", directorId)}.>`;

/** Where the reply to one request goes. */
export function replySubject(directorId: string, agentId: string, requestId: string): string {
  return `director.${parseId("director_id", directorId)}.${parseId("agent_id", agentId)}.${parseId("request_id", requestId)}`;
}

/** Where an agent says that it is alive. */
export const heartbeatSubject = (agentId: string): string => `hm.agent.heartbeat.${parseId("agent_id", agentId)}`;

/** What agents say without being asked: that they are well, that something is not, that they end. */
export type HealthKind = "heartbeat" | "alert" | "shutdown";

/** What all agents say of that kind. */
export const healthSubject = (kind: HealthKind): string => `hm.agent.${kind}.*`;

export interface ReplyAddress {
  readonly directorId: string;
  readonly agentId: string;
  readonly requestId: string;
}

/** Takes a reply subject apart; undefined when it is none. */
export function parseReplySubject(subject: string): ReplyAddress | undefined {
  const [root, directorId, agentId, requestId, ...rest] = subject.split(".");
  if (root !== "director" || rest.length > 0) return undefined;
  if (!isToken(directorId) || !isToken(agentId) || !isToken(requestId)) return undefined;
  return { directorId, agentId, requestId };
}

/** The agent that said so; undefined when the subject is no agent's. */
export function parseHealthSubject(kind: HealthKind, subject: string): string | undefined {
  const prefix = `hm.agent.${kind}.`;
  const agentId = subject.startsWith(prefix) ? subject.slice(prefix.length) : undefined;
  return isToken(agentId) ? agentId : undefined;
}

/** For log lines about a subject that somebody else chose. */
export const quotedSubject = (subject: string): string => quoted(subject, 200);

function isToken(token: string | undefined): token is string {
  if (token === undefined) return false;
  try {
    parseId("subject token", token);
    return true;
  } catch {
    return false;
  }
}
