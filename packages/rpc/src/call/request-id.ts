import { randomBytes } from "node:crypto";

export const REQUEST_ID_HEADER = "x-request-id";

// It goes into log lines, so a caller's own is taken only when it can be nothing but a name.
export const REQUEST_ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

/** Names calls: as their callers do, or by numbers of this process. */
export class RequestIds {
  readonly #prefix = randomBytes(4).toString("hex");
  #count = 0;

  of(sent: unknown): string {
    if (typeof sent === "string" && REQUEST_ID_PATTERN.test(sent)) return sent;
    this.#count += 1;
    return `${this.#prefix}-${this.#count}`;
  }
}
