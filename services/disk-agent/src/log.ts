/** Where the agent writes log lines; the service's logger fits. `about` is the line's fields. */
export interface Log {
  info(about: object, message: string): void;
  warn(about: object, message: string): void;
  error(about: object, message: string): void;
}
