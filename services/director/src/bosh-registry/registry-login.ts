import { createHash, timingSafeEqual } from "node:crypto";
import type { Clock } from "@diskmesh/service";
import { LoginBrake } from "../logins/login-brake.js";

/** Why somebody is not let in; nothing of what was sent. */
export interface Denial {
  readonly why: string;
  /** Absent for one that may try again at once. */
  readonly retryAfterMs?: number;
}

/** The one login of the bosh-registry. Whoever guesses it is slowed down as at the HTTPS face. */
export class RegistryLogin {
  readonly #user: string;
  readonly #expected: Buffer;
  readonly #brake: LoginBrake;

  constructor(
    { user, password }: { readonly user: string; readonly password: string },
    clock: Pick<Clock, "monotonicMs">,
  ) {
    this.#user = user;
    this.#expected = sha256(`Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`);
    this.#brake = new LoginBrake(clock);
  }

  /** Undefined for the right one. */
  deny(authorization: string, address: string): Denial | undefined {
    // All names count as the one that there is: another can only be wrong.
    const waitMs = this.#brake.waitMs(address, this.#user);
    if (waitMs > 0)
      return {
        why: "logins from this address failed too often: wait before the next one",
        retryAfterMs: waitMs,
      };
    if (timingSafeEqual(sha256(authorization), this.#expected)) return undefined;
    this.#brake.failed(address, this.#user);
    return { why: "name or password are wrong" };
  }
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
