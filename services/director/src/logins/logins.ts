import { createHmac, randomBytes } from "node:crypto";
import { ResourceExhaustedError, UnauthenticatedError } from "@diskmesh/domain";
import { hashPassword, isPasswordOf } from "@diskmesh/pki/password-hash";
import type { Clock } from "@diskmesh/service";
import type { HttpConfig } from "../config/http-config.js";
import type { Login } from "./login.js";
import { LoginRateLimiter, networkOf } from "./login-rate-limiter.js";
import { PageSessions } from "./page-sessions.js";
import { passwordQueue } from "./password-queue.js";
import { Tokens } from "./tokens.js";

/**
 * Time for which a successful password check is cached. Clients send the password with every request of a command, and
 * a check is expensive.
 */
const REMEMBERED_MS = 60_000;
/** Maximum age of a password check, however often the cached login is used. */
const CHECKED_AGAIN_MS = 3_600_000;
const MAX_REMEMBERED = 1_000;

interface Remembered {
  readonly login: Login;
  readonly checkedAtMs: number;
  readonly untilMs: number;
}

/** Authenticates requests by their Authorization header. */
export class Logins {
  readonly sessions: PageSessions;
  readonly #users: ReadonlyMap<string, HttpConfig["users"][number]>;
  readonly #tokens: Tokens | undefined;
  readonly #rateLimiter: LoginRateLimiter;
  readonly #passwordQueue: ReturnType<typeof passwordQueue>;
  /** Logins by keyed hash of network, name and password, oldest first. The hash does not reveal the password. */
  readonly #remembered = new Map<string, Remembered>();
  readonly #key = randomBytes(32);
  /**
   * The hash of a random password. Attempts with an unknown name are checked against it, so that refusing an unknown
   * name takes as long as refusing a known name.
   */
  readonly #noHash = hashPassword(randomBytes(32).toString("hex"));

  constructor(
    config: HttpConfig,
    private readonly clock: Pick<Clock, "monotonicMs" | "nowMs">,
  ) {
    this.#users = new Map(config.users.map((user) => [user.name, user]));
    this.sessions = new PageSessions(this.#users, clock);
    this.#tokens = config.tokens && new Tokens(config.tokens);
    this.#rateLimiter = new LoginRateLimiter(clock);
    this.#passwordQueue = passwordQueue();
  }

  /**
   * Returns the login. Throws UnauthenticatedError, or ResourceExhaustedError for an address with too many recent
   * failures.
   */
  async of(authorization: string | undefined, address: string, signal: AbortSignal): Promise<Login> {
    const [, scheme = "", credentials = ""] = /^(\S+) +(\S+) *$/.exec(authorization ?? "") ?? [];
    if (scheme.toLowerCase() === "basic") return this.#basic(credentials, address, signal);
    if (scheme.toLowerCase() === "bearer" && this.#tokens !== undefined) return this.#tokens.login(credentials);
    throw new UnauthenticatedError(
      authorization === undefined ? "no credentials were given" : "the credentials are of an unknown kind",
    );
  }

  async #basic(credentials: string, address: string, signal: AbortSignal): Promise<Login> {
    // The network is part of the key: a password from another network may be a guess and must pass the rate limiter.
    const mark = createHmac("sha256", this.#key)
      .update(`${networkOf(address)} ${credentials}`)
      .digest("base64");
    const known = this.#remembered.get(mark);
    if (known !== undefined && known.untilMs > this.clock.monotonicMs())
      return this.#remember(mark, known.login, known.checkedAtMs, address);
    const [name, password] = partsOf(credentials);
    this.#refuseHasty(address, name);
    const login = await this.#check(name, password, address, signal);
    return this.#remember(mark, login, this.clock.monotonicMs(), address);
  }

  #refuseHasty(address: string, name: string): void {
    const waitMs = this.#rateLimiter.waitMs(address, name);
    if (waitMs === 0) return;
    throw new ResourceExhaustedError("too many logins with this name from this address failed: wait, then try again", {
      retryAfterMs: waitMs,
      about: { address },
    });
  }

  async #check(name: string, password: string, address: string, signal: AbortSignal): Promise<Login> {
    const user = this.#users.get(name);
    return this.#passwordQueue(networkOf(address), signal, async () => {
      // Checked again, because other attempts may have failed while this attempt waited in the queue.
      this.#refuseHasty(address, name);
      const isRight = await isPasswordOf(user?.passwordHash ?? (await this.#noHash), password);
      if (user !== undefined && isRight) return { name: user.name, scopes: user.scopes, by: "password" };
      this.#rateLimiter.failed(address, name);
      throw new UnauthenticatedError("the name or the password is wrong");
    });
  }

  #remember(mark: string, login: Login, checkedAtMs: number, address: string): Login {
    this.#rateLimiter.succeeded(address, login.name);
    const untilMs = Math.min(this.clock.monotonicMs() + REMEMBERED_MS, checkedAtMs + CHECKED_AGAIN_MS);
    this.#remembered.delete(mark);
    this.#remembered.set(mark, { login, checkedAtMs, untilMs });
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size > MAX_REMEMBERED && oldest !== undefined) this.#remembered.delete(oldest);
    return login;
  }
}

function partsOf(credentials: string): readonly [name: string, password: string] {
  const text = Buffer.from(credentials, "base64").toString("utf8");
  const colon = text.indexOf(":");
  return [text.slice(0, Math.max(0, colon)), text.slice(colon + 1)];
}
