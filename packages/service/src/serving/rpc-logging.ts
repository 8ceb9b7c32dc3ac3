import { DomainError, formatIdentity, LEADER_ADDRESS, type Logger } from "@diskmesh/domain";
import type { RefusedConnection, RpcChange, RpcFailure, RpcServerOptions } from "@diskmesh/rpc";
import { LineLimit } from "../time/line-limit.js";
import { shownRequest } from "./shown-request.js";

const REFUSALS_INTERVAL_MS = 1_000;

/** Returns the log callbacks of an RpcServer: `new RpcServer({ ..., ...rpcLogging(log) })`. */
export function rpcLogging(
  log: Logger,
): Required<Pick<RpcServerOptions, "onChange" | "onError" | "onRefused" | "onBrokenStream">> {
  const limit = new LineLimit(log);
  return {
    onChange: (change) => logChange(log, change),
    onError: (failure) => logFailure(log, limit, failure),
    onRefused: refusalLogger(log),
    onBrokenStream: (error) => {
      if (limit.admits("broken streams")) log.error({ error }, "broken gRPC stream closed");
    },
  };
}

/** Marks each line of a call that may have changed something, so that an auditor can select them. */
const AUDIT = { audit: "call" } as const;

function logChange(log: Logger, { method, identity, requestId, durationMs, request, response }: RpcChange): void {
  const { result, task, disk } = (response ?? {}) as Readonly<Record<"result" | "task" | "disk", unknown>>;
  // Result code of a CMS action, id of the task that a call started, and CID of its disk; absent in other answers.
  const code = fieldOf(result, "code");
  const taskId = fieldOf(task, "taskId");
  const diskCid = fieldOf(disk, "diskCid");
  // All fields are listed, with undefined for absent ones, because spreading objects took as long as the rest of the
  // line.
  const fields = {
    audit: AUDIT.audit,
    method,
    status: "OK",
    result: typeof code === "string" ? code : undefined,
    taskId: typeof taskId === "number" ? taskId : undefined,
    diskCid: typeof diskCid === "string" && diskCid !== "" ? diskCid : undefined,
    requestId,
    caller: formatIdentity(identity),
    durationMs: rounded(durationMs),
    request: shownRequest(request),
  };
  log.info(fields, "gRPC call finished");
}

function fieldOf(message: unknown, name: string): unknown {
  return typeof message === "object" && message !== null ? (message as Record<string, unknown>)[name] : undefined;
}

const rounded = (durationMs: number): number => Math.round(durationMs * 10) / 10;

/**
 * Logs bugs as errors with their stack, problems of this server as warnings, refusals of a standby at debug level, and
 * everything else as info. Lines are limited per caller, except those of a standby and of calls that may have changed
 * something.
 */
function logFailure(log: Logger, limit: LineLimit, failure: RpcFailure): void {
  const { error, identity, durationMs, unexpected, changes, request, ...rest } = failure;
  const caller = identity ? formatIdentity(identity) : "unknown";
  const isOfStandby = error instanceof DomainError && LEADER_ADDRESS in error.about;
  const mayHaveChanged = changes && !(error instanceof DomainError && error.outcome === "not_done");
  if (!isOfStandby && !mayHaveChanged && !limit.admits(caller)) return;
  const ofChange = changes && { ...AUDIT, reason: reasonOf(error), request: shownRequest(request) };
  const fields = { ...aboutFields(error), ...rest, ...ofChange, caller, durationMs: rounded(durationMs) };
  const text = "gRPC call failed";
  if (unexpected) log.error({ ...fields, error }, text);
  // Logged at debug level: thousands of callers that search for the leader get this error from a standby.
  else if (isOfStandby) log.debug(fields, text);
  else if (failure.status === "UNAVAILABLE" || failure.status === "RESOURCE_EXHAUSTED")
    log.warn({ ...fields, error: (error as Error).message }, text);
  else log.info({ ...fields, error: (error as Error).message }, text);
}

function reasonOf(error: unknown): string {
  return error instanceof DomainError ? error.reason : "INTERNAL";
}

/** Returns the error's affected objects with their log field names: `disk_id` on the wire is `diskId` in the log. */
function aboutFields(error: unknown): Record<string, string> {
  if (!(error instanceof DomainError)) return {};
  const camelCase = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(error.about).map(([name, value]) => [camelCase(name), value]));
}

/** Time after which a handshake that fails again for the same reason is logged again. */
const SAME_HANDSHAKE_MS = 600_000;
const MAX_HANDSHAKES_REMEMBERED = 1_000;

/**
 * Writes at most one line a second, because refused clients can return as often as they like and must not fill the
 * disk.
 */
function refusalLogger(log: Logger): (refused: RefusedConnection) => void {
  let loggedAtMs = Number.NEGATIVE_INFINITY;
  let notLogged = 0;
  const handshakes = new Map<string, number>();
  return ({ isHandshake, remoteAddress, reason }) => {
    const nowMs = performance.now();
    const key = `${remoteAddress} ${reason}`;
    if (isHandshake && nowMs - (handshakes.get(key) ?? Number.NEGATIVE_INFINITY) < SAME_HANDSHAKE_MS) return;
    if (nowMs - loggedAtMs < REFUSALS_INTERVAL_MS) {
      notLogged += 1;
      return;
    }
    if (isHandshake) {
      // Only logged handshakes are remembered, so a suppressed handshake failure can be logged when it occurs again.
      if (handshakes.size >= MAX_HANDSHAKES_REMEMBERED) handshakes.clear();
      handshakes.set(key, nowMs);
    }
    log.warn({ remoteAddress, reason, refusedSinceLastLine: notLogged }, "gRPC connection refused");
    loggedAtMs = nowMs;
    notLogged = 0;
  };
}
