import type { AlertName } from "./alerts.js";

/** Fields of a line. Those that name an alert have a name of `alerts.ts`, so that each alert has a cure. */
interface Fields {
  readonly [field: string]: unknown;
  readonly alert?: AlertName;
  readonly alertEnded?: AlertName;
}

/** `message` is constant for all lines of a kind; ids and details are fields: `diskId`, `taskId`, `error`. */
type LogLine = (fields: Fields, message: string) => void;

/** A state of the process that somebody must act on. */
export interface Alert {
  /** Message of the line that began the alert. */
  readonly why: string;
  /** Wall clock time of that line. */
  readonly sinceMs: number;
}

/** Alerts of a process that have not ended, by name. */
export interface Alerts {
  readonly current: ReadonlyMap<string, Alert>;
  /** Calls back when an alert has begun or ended. */
  onChange(listener: () => void): void;
}

/**
 * Receives log lines, one method per level. A line of level `warn` or `error` with a field `alert` begins the alert of that
 * name, which is then a trouble of the process, and a line of level `info` with a field `alertEnded` ends it. A field
 * `alertOf` tells alerts of one name apart, for example by the file that each is about.
 */
export interface Logger {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  /** Absent in a logger that keeps none. */
  readonly alerts?: Alerts;
}

const nothing = (): void => {};

export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
