import {
  type Alerts,
  type Logger,
  REDACTED,
  type Redactor,
  SECRET_NAMES,
  systemClock,
  visible,
} from "@diskmesh/domain";
import { trace } from "@opentelemetry/api";
import {
  type DestinationStream,
  destination,
  type Logger as PinoLogger,
  pino,
  stdSerializers,
  stdTimeFunctions,
} from "pino";

import type { LogLevel } from "../config/service-config.js";
import { CurrentAlerts } from "./current-alerts.js";

const BACKLOG_SIZE_BYTES = 1024 * 1024;

// Redacts by field name in case code logs a secret by mistake. Only a field name is followed by a quote and a colon in
// JSON text, so the pattern matches no value.
const SECRET_FIELD = new RegExp(`"(?:${SECRET_NAMES.join("|")})":`);

export interface LoggerOptions {
  readonly service: string;
  readonly level: LogLevel;
  /** Maximum bytes waiting for space on standard error's disk; further lines are dropped and counted. */
  readonly maxBacklogBytes?: number;
  /** Redacts the secrets that the process was started with. */
  readonly redactor?: Redactor;
  /** Standard error by default. */
  readonly destination?: DestinationStream;
}

/** A process's logger, with a level that can change while the process runs. */
export interface ServiceLogger extends Logger {
  readonly alerts: Alerts;
  /** Suppresses lines below the level from now on. */
  setLevel(level: LogLevel): void;
  /** Writes a line regardless of the level. Used for the last line before an unplanned exit. */
  last(fields: object, message: string): void;
}

/**
 * Creates a logger of JSON lines. Lines written during a traced call contain its trace id; secrets are redacted by
 * name.
 */
export function createLogger(options: LoggerOptions): ServiceLogger {
  if (options.destination !== undefined) return loggerTo(options.destination, options);
  const output = new StandardError(options.maxBacklogBytes ?? BACKLOG_SIZE_BYTES);
  const log = loggerTo(output, options);
  output.onRoom = (lines) => log.warn({ lines }, "log lines lost to a full disk");
  return log;
}

/** Destination of a log. A full disk must not end the service: lines wait for the next write. */
class StandardError implements DestinationStream {
  /** Called with the number of lost lines once writing works again. */
  onRoom: (lines: number) => void = () => {};
  // Synchronous, so that the last lines before an exit are never lost.
  readonly #output = destination({ fd: 2, sync: true });
  #failed = false;
  #waitingBytes = 0;
  #lost = 0;

  constructor(private readonly maxBacklogBytes: number) {
    this.#output.on("error", () => {
      this.#failed = true;
    });
  }

  write(line: string): void {
    const fits = this.#waitingBytes === 0 || this.#waitingBytes + line.length <= this.maxBacklogBytes;
    if (!fits) this.#lost++;
    this.#failed = false;
    // sonic-boom retries its waiting lines with every write, even of an empty text.
    this.#output.write(fits ? line : "");
    if (!this.#failed) this.#waitingBytes = 0;
    else if (fits) this.#waitingBytes += line.length;
    if (this.#failed || this.#lost === 0) return;
    const lost = this.#lost;
    this.#lost = 0;
    this.onRoom(lost);
  }
}

function loggerTo(output: DestinationStream, options: LoggerOptions): ServiceLogger {
  const log = pinoTo(output, options);
  const setLevel = (level: LogLevel): void => {
    log.level = level;
  };
  const last = (fields: object, message: string): void => {
    const { level } = log;
    if (level === "silent") log.level = "fatal";
    log.fatal(fields, message);
    log.level = level;
  };
  const { redactor } = options;
  const alerts = new CurrentAlerts(systemClock.nowMs, (text) => redactor?.text(text) ?? text);
  const beginning = (level: "warn" | "error") => (fields: object, message: string) => {
    alerts.noteBegin(fields, message);
    log[level](fields, message);
  };
  return {
    debug: (fields, message) => log.debug(fields, message),
    info: (fields, message) => {
      alerts.noteEnd(fields);
      log.info(fields, message);
    },
    warn: beginning("warn"),
    error: beginning("error"),
    alerts,
    setLevel,
    last,
  };
}

function pinoTo(output: DestinationStream, options: LoggerOptions): PinoLogger {
  const { redactor } = options;
  return pino(
    {
      level: options.level,
      base: { service: options.service, pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      messageKey: "message",
      errorKey: "error",
      // An `error` field may be a text, or an Error, whose stack is logged.
      serializers: { error: (error: unknown) => (error instanceof Error ? stdSerializers.err(error) : error) },
      formatters: { level: (label) => ({ level: label }) },
      mixin: traceIds,
      // Without trace ids pino need not copy the fields.
      mixinMergeStrategy: (fields, ids) => (ids === NO_IDS ? fields : Object.assign(ids, fields)),
    },
    { write: (line: string) => output.write(visible(withoutSecrets(line, redactor))) },
  );
}

/**
 * Searches the whole line for secret field names and secret texts. Hardly any line contains them; such a line is parsed
 * and redacted value by value, so that it stays JSON. pino's own redaction searches each name at each depth, which took
 * most of the time of a line, and so of a small call.
 */
function withoutSecrets(line: string, redactor: Redactor | undefined): string {
  if (!SECRET_FIELD.test(line) && (redactor === undefined || redactor.text(line) === line)) return line;
  const named = (name: string, value: unknown) => (SECRET_NAMES.includes(name) ? REDACTED : value);
  const value: unknown = JSON.parse(line, named);
  return `${JSON.stringify(redactor ? redactor.value(value) : value)}\n`;
}

const NO_IDS = {};

function traceIds(): Record<string, string> {
  const span = trace.getActiveSpan()?.spanContext();
  return span && trace.isSpanContextValid(span) ? { traceId: span.traceId, spanId: span.spanId } : NO_IDS;
}
