import { isJsonObject, type JsonObject, type Logger, messageOf, parseJson, silentLogger } from "@diskmesh/domain";
import type { NatsConnection, Subscription } from "./connection.js";
import { type HealthKind, healthSubject, parseHealthSubject } from "./subjects.js";

/**
 * Maximum size of a message, many times that of a real heartbeat. Larger messages are dropped, because an agent may
 * send messages unasked and at any time.
 */
const MAX_MESSAGE_BYTES = 64 * 1024;

/** Calls back on each heartbeat of any agent. Drops messages that are no JSON object or too long. */
export function watchHeartbeats(
  nats: NatsConnection,
  onHeartbeat: (agentId: string, heartbeat: JsonObject) => void,
  log: Logger = silentLogger,
): Subscription {
  return watch(nats, "heartbeat", log, (agentId, said) => {
    if (said !== null) onHeartbeat(agentId, said);
  });
}

/** A message that an agent sends on its own, besides heartbeats. A shutdown has no content. */
export type Notice = { readonly kind: "alert" | "shutdown"; readonly said: JsonObject };

/**
 * Calls back on each alert and shutdown of any agent; drops the same messages as watchHeartbeats. Returns a function
 * that removes the listener.
 */
export function watchNotices(
  nats: NatsConnection,
  onNotice: (agentId: string, notice: Notice) => void,
  log: Logger = silentLogger,
): () => void {
  const subscriptions = (["alert", "shutdown"] as const).map((kind) =>
    watch(nats, kind, log, (agentId, said) => onNotice(agentId, { kind, said: said ?? {} })),
  );
  return () => {
    for (const subscription of subscriptions) subscription.unsubscribe();
  };
}

function watch(
  nats: NatsConnection,
  kind: HealthKind,
  log: Logger,
  onSaid: (agentId: string, said: JsonObject | null) => void,
): Subscription {
  return nats.subscribe(healthSubject(kind), ({ data, subject }) => {
    const agentId = parseHealthSubject(kind, subject);
    if (agentId === undefined) return;
    let said: JsonObject | null;
    try {
      said = parse(data);
    } catch (error) {
      log.warn({ agentId, kind, error: messageOf(error) }, "malformed agent message dropped");
      return;
    }
    onSaid(agentId, said);
  });
}

function parse(data: Uint8Array): JsonObject | null {
  if (data.length > MAX_MESSAGE_BYTES) throw new TypeError(`it has ${data.length} bytes, which is too long`);
  const decoded = parseJson("it", Buffer.from(data).toString("utf8"));
  if (decoded === null || isJsonObject(decoded)) return decoded;
  throw new TypeError("it is not a JSON object");
}
