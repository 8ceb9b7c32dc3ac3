import { randomBytes } from "node:crypto";

export const REQUEST_ID_HEADER = "x-request-id";

// Request ids are logged, so a caller's own is accepted only when it has the form of a name.
export const REQUEST_ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

/** Returns ids for calls: the caller's own, or a number of this process. */
export class RequestIds {
  readonly #prefix = randomBytes(4).toString("hex");
  #count = 0;

  of(sent: unknown): string {
    if (typeof sent === "string" && REQUEST_ID_PATTERN.test(sent)) return sent;
    this.#count += 1;
    return `${this.#prefix}-${this.#count}`;
  }
}
