import { isId, parseId, quoted } from "@diskmesh/domain";

/**
 * All NATS subjects of the mesh are built and parsed here. Each variable token passes parseId, so no id can contain a
 * dot or a wildcard and widen a subject.
 */

/** Returns the subject on which an agent receives requests. */
export const agentSubject = (agentId: string): string => `agent.${parseId("agent_id", agentId)}`;

/** The same of every agent, for traces. */
export const AGENT_SUBJECT_TEMPLATE = "agent.{agent_id}";

/** Returns the subject on which one director process receives all replies. */
export const repliesSubject = (directorId: string): string => `director.${parseId("director_id", directorId)}.>`;

/** Returns the subject of the reply to one request. */
export function replySubject(directorId: string, agentId: string, requestId: string): string {
  return `director.${parseId("director_id", directorId)}.${parseId("agent_id", agentId)}.${parseId("request_id", requestId)}`;
}

/** Returns the subject of an agent's heartbeats. */
export const heartbeatSubject = (agentId: string): string => `hm.agent.heartbeat.${parseId("agent_id", agentId)}`;

/** Unrequested messages of agents: a heartbeat, an alert about a problem, or a shutdown. */
export type HealthKind = "heartbeat" | "alert" | "shutdown";

/** Returns the subject of that kind for all agents. */
export const healthSubject = (kind: HealthKind): string => `hm.agent.${kind}.*`;

export interface ReplyAddress {
  readonly directorId: string;
  readonly agentId: string;
  readonly requestId: string;
}

/** Parses a reply subject; undefined for any other subject. */
export function parseReplySubject(subject: string): ReplyAddress | undefined {
  const [root, directorId = "", agentId = "", requestId = "", ...rest] = subject.split(".");
  if (root !== "director" || rest.length > 0 || ![directorId, agentId, requestId].every(isId)) return undefined;
  return { directorId, agentId, requestId };
}

/** Returns the id of the sending agent; undefined for any other subject. */
export function parseHealthSubject(kind: HealthKind, subject: string): string | undefined {
  const prefix = `hm.agent.${kind}.`;
  const agentId = subject.slice(prefix.length);
  return subject.startsWith(prefix) && isId(agentId) ? agentId : undefined;
}

/** Quotes a subject chosen by a peer, for log lines. */
export const quotedSubject = (subject: string): string => quoted(subject, 200);
