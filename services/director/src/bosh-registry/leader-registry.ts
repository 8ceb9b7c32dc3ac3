import { request as httpRequest, type IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { DomainError, hostPortOf, LEADER_ADDRESS, messageOf, parseJson, UnavailableError } from "@diskmesh/domain";
import type { DirectorConfig } from "../config/config.js";
import type { Denial } from "./registry-login.js";

export type BoshRegistryConfig = NonNullable<DirectorConfig["boshRegistry"]>;

/** An admitted request. */
export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly settings: string;
  /** The address of a client without a login; undefined for a client with a login. */
  readonly anonymousAt: string | undefined;
}

export interface Answer {
  readonly code: number;
  /** The reason of a refused login. Only the log shows the reason. */
  readonly denial?: Denial;
  /** Set when the leader answered. The leader's log then describes the change. */
  readonly isForwarded?: true;
  /** The client's address when another director forwarded the request. */
  readonly askedBy?: string | undefined;
  /** `message` is an addition to the answer of BOSH's registry. CPIs read only the code. */
  readonly body: { readonly status: string; readonly settings?: string; readonly message?: string };
}

interface LeaderRegistryOptions {
  readonly config: BoshRegistryConfig;
  /** Throws UnavailableError while this process does not lead. */
  readonly current: () => unknown;
  readonly limits: { readonly maxSettingsBytes: number };
  readonly leaderWaitMs: number;
  readonly requestTimeoutMs: number;
}

/** Headers of a request that another director forwarded. They count only with the login. */
const CLIENT_ADDRESS = "x-diskmesh-client-address";
const CLIENT_LOGIN = "x-diskmesh-client-login";
const ASK_AGAIN_MS = 100;
/**
 * Maximum ratio of the size of the leader's answer to the size of the settings. JSON escapes a character as six
 * characters at most; the seventh covers the other fields of the answer.
 */
const MAX_JSON_GROWTH = 7;

/**
 * Forwards requests to the leader's bosh-registry, at the host of the leader's gRPC API and this director's own
 * bosh-registry port.
 */
export class LeaderRegistry {
  readonly #options: LeaderRegistryOptions;
  readonly #authorization: string;

  constructor(options: LeaderRegistryOptions) {
    this.#options = options;
    const { user, password } = options.config;
    this.#authorization = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  }

  /**
   * Returns the leader's answer; undefined when this director leads. Retries until a leader answers or `leaderWaitMs`
   * is over; requests are idempotent. Throws UnavailableError.
   */
  async answer(
    asked: Asked & { readonly address: string; readonly isForwarded: boolean },
  ): Promise<Answer | undefined> {
    for (const untilMs = performance.now() + this.#options.leaderWaitMs; ; ) {
      const elsewhere = this.#elsewhere();
      if (elsewhere === undefined) return undefined;
      if (asked.isForwarded) throw elsewhere;
      const leader = hostPortOf(elsewhere.about[LEADER_ADDRESS] ?? "");
      try {
        if (leader === undefined) throw elsewhere;
        return await this.#ask(asked, leader.host);
      } catch (error) {
        if (performance.now() >= untilMs) throw error;
        await sleep(ASK_AGAIN_MS);
      }
    }
  }

  /** Returns the error that names another leader; undefined when this process leads. */
  #elsewhere(): DomainError | undefined {
    try {
      this.#options.current();
      return undefined;
    } catch (error) {
      if (error instanceof DomainError) return error;
      throw error;
    }
  }

  async #ask(
    { method, url, settings, anonymousAt, address }: Asked & { readonly address: string },
    host: string,
  ): Promise<Answer> {
    const { config, limits, requestTimeoutMs } = this.#options;
    const maxLength = MAX_JSON_GROWTH * limits.maxSettingsBytes;
    const headers = {
      authorization: this.#authorization,
      [CLIENT_ADDRESS]: address,
      [CLIENT_LOGIN]: anonymousAt === undefined ? "yes" : "no",
    };
    const signal = AbortSignal.timeout(requestTimeoutMs);
    const place = { host, port: config.listen.port, method, path: url, headers, agent: false, signal };
    try {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        httpRequest(place, resolve).once("error", reject).end(settings);
      });
      response.setEncoding("utf8");
      let text = "";
      for await (const piece of response) {
        text += piece;
        if (text.length > maxLength) throw new RangeError(`the answer has more than ${maxLength} characters`);
      }
      const body = parseJson("the answer of the bosh-registry", text) as unknown as Answer["body"];
      return { code: response.statusCode ?? 502, isForwarded: true, body };
    } catch (error) {
      throw new UnavailableError(
        `this director is a standby, and the leader's bosh-registry did not answer: ${messageOf(error)}`,
        { cause: error },
      );
    }
  }
}

/** Returns the client of a forwarded request; undefined for a request that came directly from its client. */
export function forwardedBy({
  headers,
}: IncomingMessage): { readonly address: string; readonly anonymousAt: string | undefined } | undefined {
  const address = headers[CLIENT_ADDRESS];
  if (typeof address !== "string") return undefined;
  return { address, anonymousAt: headers[CLIENT_LOGIN] === "yes" ? undefined : address };
}

/** Returns the client's address; IPv4-mapped addresses as IPv4. */
export function addressOf({ socket }: IncomingMessage): string {
  return (socket.remoteAddress ?? "").replace(/^::ffff:/, "");
}
