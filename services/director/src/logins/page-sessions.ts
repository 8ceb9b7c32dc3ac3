import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "@diskmesh/service";
import type { HttpConfig } from "../config/http-config.js";
import type { Login } from "./login.js";

const LASTS_S = 12 * 3_600;
/** Browsers accept a cookie with the __Host- prefix only over TLS and only from this host. */
const NAME = "__Host-diskmesh";
const ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Strict";

/** The Set-Cookie header that deletes the browser's session cookie. */
export const NO_SESSION = `${NAME}=; Max-Age=0; ${ATTRIBUTES}`;

/**
 * Browser sessions at the page. A cookie contains the name, the end, a random id and a signature keyed by the user's
 * password hash. Directors with the same users accept each other's cookies without communication. A changed password or
 * a removed user invalidates the cookie. Sessions that their users ended are in the tablet (see endSession).
 */
export class PageSessions {
  constructor(
    private readonly users: ReadonlyMap<string, HttpConfig["users"][number]>,
    private readonly clock: Pick<Clock, "nowMs">,
  ) {}

  /** Returns the Set-Cookie header of a new session. `name` must be a user. */
  begin(name: string): string {
    const endsAtS = Math.floor(this.clock.nowMs() / 1_000) + LASTS_S;
    const content = `${Buffer.from(name).toString("base64url")}.${endsAtS}.${randomBytes(16).toString("base64url")}`;
    return `${NAME}=${content}.${this.#signatureOf(name, content)}; Max-Age=${LASTS_S}; ${ATTRIBUTES}`;
  }

  /**
   * Returns the login of a Cookie header; undefined without a valid session. The caller checks whether its user has
   * ended the session.
   */
  loginOf(cookies: string | undefined): Login | undefined {
    const cookie = (cookies ?? "").split(/; */).find((each) => each.startsWith(`${NAME}=`));
    const [encoded = "", end = "", sessionId = "", signature = ""] = cookie?.slice(NAME.length + 1).split(".") ?? [];
    const name = Buffer.from(encoded, "base64url").toString();
    const user = this.users.get(name);
    if (user === undefined || !isEqual(signature, this.#signatureOf(name, `${encoded}.${end}.${sessionId}`)))
      return undefined;
    const endsAtMs = Number(end) * 1_000;
    if (!(endsAtMs > this.clock.nowMs())) return undefined;
    return { name, scopes: user.scopes, by: "session", session: { sessionId, endsAtMs } };
  }

  #signatureOf(name: string, content: string): string {
    const key = this.users.get(name)?.passwordHash;
    if (key === undefined) throw new TypeError("a page session needs a user");
    return createHmac("sha256", key).update(`page session ${content}`).digest("base64url");
  }
}

function isEqual(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Returns whether a path or a route's path belongs to the page. Sessions are accepted only there. */
export function isOfPage(path: string): boolean {
  return path === "/page" || path.startsWith("/page/");
}
