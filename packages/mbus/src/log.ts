/** Where this package reports what callers cannot be told: pino's loggers fit. */
export interface MbusLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export const silentLog: MbusLog = { debug: () => {}, info: () => {}, warn: () => {} };
