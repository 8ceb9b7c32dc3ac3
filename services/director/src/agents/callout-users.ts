import { randomUUID, X509Certificate } from "node:crypto";
import { type Logger, messageOf } from "@diskmesh/domain";
import type { NatsConnection } from "@diskmesh/mbus";
import { pinOf } from "@diskmesh/pki";
import type { Clock } from "@diskmesh/service";
import type { CurrentTls } from "@diskmesh/tls";
import type { KeyPair } from "nkeys.js";
import * as z from "zod";
import type { AgentUsers } from "./agent-users.js";
import { answerCallout, parseUserName } from "./callout-answer.js";

export interface CalloutUsersOptions {
  readonly nats: NatsConnection;
  readonly issuer: KeyPair;
  /** Decides which certificates of host agents are trusted. */
  readonly tls: CurrentTls;
  readonly ownTls: CurrentTls;
  readonly users: AgentUsers;
  /** Throws while another director may lead. */
  readonly checkMayAct: () => void;
  readonly clock: Clock;
  readonly log: Logger;
}

const CALLOUT_SUBJECT = "$SYS.REQ.USER.AUTH";
const CONNECTIONS_SUBJECT = "$SYS.REQ.SERVER.PING.CONNZ";
const PAGE = 1_024;
/**
 * Delay before the second check. A client admitted just before its revocation may be missing in the first list of
 * connections.
 */
const LOOK_AGAIN_MS = 2_000;

/** Maximum number of remembered keys of this director's certificates. The oldest keys are dropped beyond it. */
const MAX_OWN_KEYS = 100;

const connectionsPage = z.object({
  server: z.object({ id: z.string().regex(/^[A-Z0-9]{1,100}$/) }),
  data: z.object({
    total: z.number(),
    offset: z.number(),
    connections: z
      .array(
        z.object({
          cid: z.number(),
          authorized_user: z.string().default(""),
          tls_peer_certs: z.array(z.object({ spki_sha256: z.string().default("") })).default([]),
        }),
      )
      .nullish(),
  }),
});
type Connection = NonNullable<z.output<typeof connectionsPage>["data"]["connections"]>[number];

/**
 * Answers nats-server's auth callouts, and has nats-server close connections whose certificate is no longer accepted.
 */
export class CalloutUsers {
  readonly #options: CalloutUsersOptions;
  readonly #replies = `director.${randomUUID()}.connections`;
  readonly #closed = new AbortController();
  /**
   * Pins (`pinOf`) of the keys of this director's certificates, by serial number. nats-server reports only the key of a
   * connection, and revocations name only serial numbers.
   */
  readonly #ownKeys = new Map<string, string>();
  #ends: (() => void)[] = [];

  constructor(options: CalloutUsersOptions) {
    this.#options = options;
  }

  start(): void {
    const { nats, tls, ownTls, users } = this.#options;
    const callouts = nats.subscribe(CALLOUT_SUBJECT, ({ data, reply }) => this.#answer(data, reply));
    const pages = nats.subscribe(this.#replies, ({ data }) => this.#review(data));
    const look = () => void this.#look();
    this.#ends = [
      () => callouts.unsubscribe(),
      () => pages.unsubscribe(),
      users.onChange(look),
      nats.onConnected(look),
    ];
    this.#noteOwnKey();
    ownTls.onChange(() => this.#noteOwnKey());
    // Connections are checked again when a TLS file changes, because the change may add a revocation.
    for (const files of [tls, ownTls]) files.onChange(look);
    if (nats.isConnected) look();
  }

  close(): void {
    this.#closed.abort();
    for (const end of this.#ends.splice(0)) end();
  }

  #answer(request: Uint8Array, reply: string): void {
    const { nats, issuer, tls, users, checkMayAct, clock, log } = this.#options;
    try {
      checkMayAct();
      const pinsOf = (agentId: string) => users.pinsOf(agentId);
      const isTrusted = (chain: readonly X509Certificate[]) => tls.isTrusted(chain);
      const gate = { issuer, isTrusted, pinsOf };
      nats.publish(reply, Buffer.from(answerCallout(request, gate, clock.nowMs())));
    } catch (error) {
      log.warn({ error: messageOf(error) }, "NATS auth callout failed");
    }
  }

  async #look(): Promise<void> {
    const { clock } = this.#options;
    this.#ask(0);
    await clock.sleep(LOOK_AGAIN_MS, this.#closed.signal).catch(() => {});
    if (!this.#closed.signal.aborted) this.#ask(0);
  }

  /** Requests the list of connections from every nats-server. */
  #ask(offset: number): void {
    const { nats, log } = this.#options;
    const request = JSON.stringify({ auth: true, limit: PAGE, offset });
    try {
      nats.publish(CONNECTIONS_SUBJECT, Buffer.from(request), { reply: this.#replies });
    } catch (error) {
      // `onConnected` repeats the request after a reconnect.
      log.debug({ error: messageOf(error) }, "NATS connection list request failed");
    }
  }

  #review(data: Uint8Array): void {
    const { nats, checkMayAct, log } = this.#options;
    const page = connectionsPage.safeParse(JSON.parse(Buffer.from(data).toString("utf8")));
    if (!page.success) {
      log.warn({ error: page.error.message }, "malformed NATS connection list dropped");
      return;
    }
    checkMayAct();
    const { server, data: found } = page.data;
    for (const connection of found.connections ?? [])
      if (!this.#mayStay(connection)) {
        const request = Buffer.from(JSON.stringify({ cid: connection.cid }));
        // nats-server ignores requests without a reply subject. Nobody reads the reply, because the next check lists
        // surviving connections again.
        nats.publish(`$SYS.REQ.SERVER.${server.id}.KICK`, request, { reply: `${this.#replies}.closed` });
        log.info({ user: connection.authorized_user }, "NATS client with an untrusted certificate disconnected");
      }
    if (found.offset + PAGE < found.total) this.#ask(found.offset + PAGE);
  }

  #mayStay({ authorized_user, tls_peer_certs: [certificate] }: Connection): boolean {
    const { tls, users } = this.#options;
    const { identity, serialNumber } = parseUserName(authorized_user) ?? {};
    // Names given by earlier releases lack the serial number. The client is disconnected and presents its certificate
    // on reconnect.
    if (identity?.role === "disk-agent") return serialNumber !== undefined && !tls.isRevoked(serialNumber);
    if (identity?.role === "director") return !this.#isRevokedKey(certificate?.spki_sha256);
    if (identity?.role !== "vm-agent") return true;
    const pins = users.pinsOf(identity.name);
    return certificate === undefined ? pins.length > 0 : pins.includes(certificate.spki_sha256);
  }

  #noteOwnKey(): void {
    const certificate = new X509Certificate(this.#options.ownTls.material.cert);
    this.#ownKeys.set(certificate.serialNumber, pinOf(certificate));
    const [oldest] = this.#ownKeys.keys();
    if (oldest !== undefined && this.#ownKeys.size > MAX_OWN_KEYS) this.#ownKeys.delete(oldest);
  }

  /** Returns true when all certificates of this director with the key are revoked. */
  #isRevokedKey(pin: string | undefined): boolean {
    const { tls, ownTls } = this.#options;
    const serials = [...this.#ownKeys].filter(([, key]) => key === pin).map(([serial]) => serial);
    return serials.length > 0 && serials.every((serial) => tls.isRevoked(serial) || ownTls.isRevoked(serial));
  }
}
