/** `message` is the same for all such lines; what is about one thing has its id as a field: `diskId`, `taskId`, `error`. */
type LogLine = (fields: object, message: string) => void;

/** Where lines of a log go. */
export interface Logger {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
}

const nothing = (): void => {};

export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
