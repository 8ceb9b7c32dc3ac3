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

/** The heartbeats of all agents. */
export const HEARTBEATS_SUBJECT = "hm.agent.heartbeat.*";

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

/** The agent whose heartbeat came on this subject; undefined when it is no heartbeat's. */
export function parseHeartbeatSubject(subject: string): string | undefined {
  const prefix = "hm.agent.heartbeat.";
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
