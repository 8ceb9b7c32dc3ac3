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
