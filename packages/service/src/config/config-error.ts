import { DomainError } from "@diskmesh/domain";

/** The config file is missing, unreadable or wrong. The message names the file, each key and the expected value. */
export class ConfigError extends DomainError {
  override readonly reason = "CONFIG";
  /** Single problems: "listen.port: 70000 is too much: give 65535 at most". */
  readonly problems: readonly string[];

  constructor(message: string, options: ErrorOptions & { readonly problems?: readonly string[] } = {}) {
    super(message, options);
    this.problems = options.problems ?? [message];
  }
}
