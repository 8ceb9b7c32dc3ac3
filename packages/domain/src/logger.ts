/** `message` is constant for all lines of a kind; ids and details are fields: `diskId`, `taskId`, `error`. */
type LogLine = (fields: object, message: string) => void;

/** Receives log lines, one method per level. */
export interface Logger {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
}

const nothing = (): void => {};

export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
