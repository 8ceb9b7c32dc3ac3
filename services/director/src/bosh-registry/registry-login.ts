import { createHash, timingSafeEqual } from "node:crypto";
import type { Clock } from "@diskmesh/service";
import { LoginRateLimiter } from "../logins/login-rate-limiter.js";

/** The reason of a refused login. Contains nothing that the client sent. */
export interface Denial {
  readonly why: string;
  /** Absent when the client may retry at once. */
  readonly retryAfterMs?: number;
}

/** The login of the bosh-registry. Failed logins are rate limited as in the HTTPS API. */
export class RegistryLogin {
  readonly #user: string;
  readonly #expected: Buffer;
  readonly #rateLimiter: LoginRateLimiter;

  constructor(
    { user, password }: { readonly user: string; readonly password: string },
    clock: Pick<Clock, "monotonicMs">,
  ) {
    this.#user = user;
    this.#expected = sha256(`Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`);
    this.#rateLimiter = new LoginRateLimiter(clock);
  }

  /** Returns the reason why the login is refused; undefined when the login is correct. */
  deny(authorization: string, address: string): Denial | undefined {
    // Failures count for the configured name, whatever name the client sent, because no other name is valid.
    const waitMs = this.#rateLimiter.waitMs(address, this.#user);
    if (waitMs > 0)
      return {
        why: "too many logins from this address failed: wait, then try again",
        retryAfterMs: waitMs,
      };
    if (timingSafeEqual(sha256(authorization), this.#expected)) return undefined;
    this.#rateLimiter.failed(address, this.#user);
    return { why: "the name or the password is wrong" };
  }
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
