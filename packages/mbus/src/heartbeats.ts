import { type Logger, messageOf, parseJson, silentLogger } from "@diskmesh/domain";
import type { NatsConnection, Subscription } from "./connection.js";
import { HEARTBEATS_SUBJECT, parseHeartbeatSubject } from "./subjects.js";

/** Many times what an agent has to tell. They come without being asked for, and nobody answers them. */
const MAX_HEARTBEAT_BYTES = 64 * 1024;

/** Calls back for each heartbeat of any agent; what is no JSON object, or too long, is dropped. */
export function watchHeartbeats(
  nats: NatsConnection,
  onHeartbeat: (agentId: string, heartbeat: Readonly<Record<string, unknown>>) => void,
  log: Logger = silentLogger,
): Subscription {
  return nats.subscribe(HEARTBEATS_SUBJECT, ({ data, subject }) => {
    const agentId = parseHeartbeatSubject(subject);
    if (agentId === undefined) return;
    const heartbeat = parseHeartbeat(agentId, data, log);
    if (heartbeat) onHeartbeat(agentId, heartbeat);
  });
}

function parseHeartbeat(agentId: string, data: Uint8Array, log: Logger): Record<string, unknown> | undefined {
  try {
    if (data.length > MAX_HEARTBEAT_BYTES) throw new TypeError(`it has ${data.length} bytes`);
    const decoded = parseJson("it", Buffer.from(data).toString("utf8"));
    if (typeof decoded === "object" && decoded !== null && !Array.isArray(decoded))
      return decoded as Record<string, unknown>;
    throw new TypeError("it is not a JSON object");
  } catch (error) {
    log.warn({ agentId, error: messageOf(error) }, "dropped a heartbeat that cannot be read");
    return undefined;
  }
}
