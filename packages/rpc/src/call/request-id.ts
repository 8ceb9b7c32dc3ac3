import { randomBytes } from "node:crypto";

export const REQUEST_ID_HEADER = "x-request-id";

// A client's request id is accepted only in this form, because it is logged.
export const REQUEST_ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

/** Chooses the id of a call: the client's, or a counter of this process. */
export class RequestIds {
  readonly #prefix = randomBytes(4).toString("hex");
  #count = 0;

  of(sent: unknown): string {
    if (typeof sent === "string" && REQUEST_ID_PATTERN.test(sent)) return sent;
    this.#count += 1;
    return `${this.#prefix}-${this.#count}`;
  }
}
