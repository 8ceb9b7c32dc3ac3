import { DomainError, formatIdentity, LEADER_ADDRESS, type Logger } from "@diskmesh/domain";
import type { RefusedConnection, RpcFailure, RpcServerOptions } from "@diskmesh/rpc";

const REFUSALS_INTERVAL_MS = 1_000;

/** What an RpcServer tells the log: `new RpcServer({ ..., ...rpcLogging(log) })`. */
export function rpcLogging(log: Logger): Required<Pick<RpcServerOptions, "onError" | "onRefused" | "onBrokenStream">> {
  return {
    onError: (failure) => logFailure(log, failure),
    onRefused: refusalLogger(log),
    onBrokenStream: (error) => log.error({ error }, "a stream broke the server's code and was closed"),
  };
}

/** Bugs are errors with their stack, troubles of this server are warnings, the rest is info. */
function logFailure(log: Logger, failure: RpcFailure): void {
  const { error, identity, durationMs, unexpected, ...rest } = failure;
  const caller = identity ? formatIdentity(identity) : "unknown";
  const fields = { ...aboutFields(error), ...rest, caller, durationMs: Math.round(durationMs * 10) / 10 };
  const text = `${failure.method} failed with ${failure.status}`;
  if (unexpected) log.error({ ...fields, error }, text);
  // Of a standby, by thousands of callers that look for the leader.
  else if (error instanceof DomainError && LEADER_ADDRESS in error.about) log.debug(fields, text);
  else if (failure.status === "UNAVAILABLE" || failure.status === "RESOURCE_EXHAUSTED")
    log.warn({ ...fields, error: (error as Error).message }, text);
  else log.info({ ...fields, error: (error as Error).message }, text);
}

/** What the error is about, under the names that log lines have for it: `disk_id` on the wire is `diskId` here. */
function aboutFields(error: unknown): Record<string, string> {
  if (!(error instanceof DomainError)) return {};
  const camelCase = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(error.about).map(([name, value]) => [camelCase(name), value]));
}

/** A handshake that fails for the same reason is told again after so long. */
const SAME_HANDSHAKE_MS = 600_000;
const MAX_HANDSHAKES_REMEMBERED = 1_000;

/** One line a second at most: whoever is refused can come again as often as it likes, and must not fill the disk. */
function refusalLogger(log: Logger): (refused: RefusedConnection) => void {
  let loggedAtMs = Number.NEGATIVE_INFINITY;
  let notLogged = 0;
  const handshakes = new Map<string, number>();
  return ({ isHandshake, ...refused }) => {
    const nowMs = performance.now();
    const key = `${refused.remoteAddress} ${refused.reason}`;
    if (isHandshake && nowMs - (handshakes.get(key) ?? Number.NEGATIVE_INFINITY) < SAME_HANDSHAKE_MS) return;
    if (nowMs - loggedAtMs < REFUSALS_INTERVAL_MS) {
      notLogged += 1;
      return;
    }
    if (isHandshake) {
      // Of those alone that the log has: one that was crowded out is told of when it comes again.
      if (handshakes.size >= MAX_HANDSHAKES_REMEMBERED) handshakes.clear();
      handshakes.set(key, nowMs);
    }
    log.warn({ ...refused, refusedSinceLastLine: notLogged }, "a connection was refused");
    loggedAtMs = nowMs;
    notLogged = 0;
  };
}
