import { DomainError, formatIdentity, LEADER_ADDRESS } from "@diskmesh/domain";
import type { RpcFailure } from "@diskmesh/rpc";
import { trace } from "@opentelemetry/api";
import { type DestinationStream, destination, type Logger, pino, stdTimeFunctions } from "pino";
import type { LogLevel } from "./config.js";

export type { Logger } from "pino";

// By name, wherever they appear to this depth: a second net below the rule that nobody logs secrets.
const SECRET_NAMES = [
  "password",
  "passwd",
  "secret",
  "token",
  "authorization",
  "credentials",
  "privateKey",
  "private_key",
  "keyPem",
  "env",
];
const SECRET_PATHS = ["", "*.", "*.*.", "*.*.*."].flatMap((depth) => SECRET_NAMES.map((name) => `${depth}${name}`));

export interface LoggerOptions {
  readonly service: string;
  readonly level: LogLevel;
  /** Standard error by default. */
  readonly destination?: DestinationStream;
}

/** A logger of JSON lines. Lines written during a traced call carry its trace id; secrets are blanked by name. */
export function createLogger(options: LoggerOptions): Logger {
  return pino(
    {
      level: options.level,
      base: { service: options.service, pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      messageKey: "message",
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_PATHS, censor: "[redacted]" },
      mixin: traceIds,
    },
    // Synchronous, so that the last lines before an exit are never lost.
    options.destination ?? destination({ fd: 2, sync: true }),
  );
}

function traceIds(): Record<string, string> {
  const span = trace.getActiveSpan()?.spanContext();
  return span && trace.isSpanContextValid(span) ? { traceId: span.traceId, spanId: span.spanId } : {};
}

/** Logs calls that failed: bugs as errors with their stack, troubles of this server as warnings, the rest as info. */
export function rpcFailureLogger(log: Logger): (failure: RpcFailure) => void {
  return (failure) => {
    const { error, identity, durationMs, unexpected, ...rest } = failure;
    const caller = identity ? formatIdentity(identity) : "unknown";
    const fields = { ...rest, caller, durationMs: Math.round(durationMs * 10) / 10 };
    const text = `${failure.method} failed with ${failure.status}`;
    if (unexpected) log.error({ ...fields, err: error }, text);
    // Of a standby, by thousands of callers that look for the leader.
    else if (error instanceof DomainError && LEADER_ADDRESS in error.about) log.debug(fields, text);
    else if (failure.status === "UNAVAILABLE" || failure.status === "RESOURCE_EXHAUSTED")
      log.warn({ ...fields, reason: (error as Error).message }, text);
    else log.info({ ...fields, reason: (error as Error).message }, text);
  };
}
