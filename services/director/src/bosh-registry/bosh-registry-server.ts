import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  InvalidArgumentError,
  InvalidStateError,
  type Logger,
  messageOf,
  parseJson,
  UnavailableError,
} from "@diskmesh/domain";
import { type Clock, LineLimit } from "@diskmesh/service";
import type { DirectorLimits } from "../config/limits.js";
import { isCrossSite } from "../logins/cross-site.js";
import type { BoshRegistrySettings } from "../store/bosh-registry-settings.js";
import type { JsonObject } from "../store/json.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { agentIdOf, ipsOf } from "../vms/bosh-registry-settings.js";
import {
  type Answer,
  type Asked,
  addressOf,
  type BoshRegistryConfig,
  forwardedBy,
  LeaderRegistry,
} from "./leader-registry.js";
import { type Denial, RegistryLogin } from "./registry-login.js";

export interface BoshRegistryServerOptions {
  readonly config: BoshRegistryConfig;
  readonly limits: DirectorLimits["boshRegistry"];
  /** Throws UnavailableError while this process does not lead. */
  readonly current: () => { readonly tablet: DirectorTablet };
  /** Maximum wait of a request while no director leads. */
  readonly leaderWaitMs: number;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Logger;
}

const OK: Answer = { code: 200, body: { status: "ok" } };
const NOT_FOUND: Answer = { code: 404, body: { status: "not_found" } };
const denied = (denial: Denial): Answer => ({
  code: denial.retryAfterMs === undefined ? 401 : 429,
  denial,
  body: { status: "access_denied" },
});
const NO_LOGIN: Denial = {
  why: "the request has no credentials, and its source address is not the address of the instance's VM",
};
const refused = (code: number, message: string): Answer => ({ code, body: { status: "error", message } });
const CROSS_SITE = refused(403, "a browser sent this request for a page of another site");

// CPIs choose the ids, so an id may contain any character of a path segment. The director uses an id only as a table
// key and as part of a URL.
const PATH = /^\/instances\/([^/?#]{1,768})\/settings$/;
const MAX_ID_LENGTH = 255;

const MAX_LOOK_INTERVAL_MS = 5_000;

/**
 * The bosh-registry HTTP API: CPIs of version 1 store the settings that agents of version 1 read. VMs keep one address
 * for life, so a standby director forwards requests to the leader. Settings hold credentials and are never logged.
 */
export class BoshRegistryServer {
  readonly #options: BoshRegistryServerOptions;
  readonly #limit: LineLimit;
  readonly #login: RegistryLogin;
  readonly #leader: LeaderRegistry;
  readonly #ips = new WeakMap<BoshRegistrySettings, readonly string[]>();
  readonly #server: Server;

  constructor(options: BoshRegistryServerOptions) {
    const { config, limits, clock, log } = options;
    const { requestTimeoutMs } = limits;
    this.#options = options;
    this.#limit = new LineLimit(log);
    this.#login = new RegistryLogin(config, clock);
    this.#leader = new LeaderRegistry({ ...options, requestTimeoutMs });
    // Without a timeout of their own, the headers have the same time as the whole request. Node checks both timeouts
    // once per `connectionsCheckingInterval`.
    const times = { requestTimeout: requestTimeoutMs, headersTimeout: requestTimeoutMs };
    const looks = { connectionsCheckingInterval: Math.min(requestTimeoutMs, MAX_LOOK_INTERVAL_MS) };
    this.#server = createServer({ ...times, ...looks }, (request, response) => void this.#serve(request, response));
    this.#server.maxConnections = limits.maxConnections;
  }

  async listen(): Promise<void> {
    const { config, log } = this.#options;
    const { host, port } = config.listen;
    const server = this.#server;
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error) =>
        reject(new InvalidStateError(`the bosh-registry cannot listen on ${host}:${port}: ${messageOf(error)}`)),
      );
      server.listen(port, host, resolve);
    });
    // A failed connection must not end the process.
    server.on("error", (error) => log.warn({ error: messageOf(error) }, "bosh-registry connection failed"));
    log.info({ address: `${host}:${(server.address() as AddressInfo).port}` }, "bosh-registry server started");
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAtMs = performance.now();
    const answer = await this.#answer(request).catch((error: unknown) => this.#answerTo(error));
    this.#tell(request, answer, performance.now() - startedAtMs);
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (answer.code === 401) headers["www-authenticate"] = 'Basic realm="Registry"';
    const { retryAfterMs } = answer.denial ?? {};
    if (retryAfterMs !== undefined) headers["retry-after"] = String(Math.ceil(retryAfterMs / 1_000));
    response.writeHead(answer.code, headers).end(JSON.stringify(answer.body));
    // The connection is closed because the rest of a refused body would otherwise be awaited.
    if (!request.complete) request.destroy();
  }

  /** Logs each request that may have changed something, and each refused request. */
  #tell(request: IncomingMessage, answer: Answer, tookMs: number): void {
    const { log } = this.#options;
    const { code, denial, isForwarded, askedBy, body } = answer;
    const { method, url, socket } = request;
    const { message: reason } = body;
    const instance = idOf(url ?? "");
    const { remoteAddress } = socket;
    const mayBeDone = code === 500 || code === 503;
    if (reason !== undefined && !mayBeDone && !this.#limit.admits(`address ${remoteAddress}`)) return;
    if (denial !== undefined) {
      const fields = { method, instance, remoteAddress, askedBy, code, error: denial.why, audit: "refused" };
      log.warn(fields, "bosh-registry request refused");
      return;
    }
    const mayChange = (method === "PUT" || method === "DELETE") && instance !== undefined;
    const durationMs = Math.round(tookMs * 10) / 10;
    const about = { audit: isForwarded ? "passed_on" : "call", method, instance, remoteAddress, askedBy, durationMs };
    const fields = { ...(mayChange && about), code };
    if (reason !== undefined) log.warn({ ...fields, reason }, "bosh-registry request refused");
    else if (mayChange) log.info(fields, "bosh-registry request finished");
  }

  #answerTo(error: unknown): Answer {
    if (error instanceof InvalidArgumentError) return refused(400, error.message);
    if (error instanceof UnavailableError) return refused(503, error.message);
    this.#options.log.error({ error: messageOf(error) }, "bosh-registry request failed");
    return { code: 500, body: { status: "error" } };
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    if (isCrossSite(request.headers, "http")) return CROSS_SITE;
    const { method = "", url = "" } = request;
    const id = idOf(url);
    if (id === undefined) return NOT_FOUND;
    const { authorization } = request.headers;
    const address = addressOf(request);
    const denial = authorization === undefined ? NO_LOGIN : this.#login.deny(authorization, address);
    const isAnonymous = method === "GET" && denial === NO_LOGIN;
    if (denial !== undefined && !isAnonymous) return denied(denial);
    const { maxSettingsBytes } = this.#options.limits;
    const settings = method === "PUT" ? await bodyOf(request, maxSettingsBytes) : "";
    if (settings === undefined) return refused(413, `the settings exceed the limit of ${maxSettingsBytes} bytes`);
    // Forwarding headers count only with a login, because a client without a login may send any header.
    const forwarded = isAnonymous ? undefined : forwardedBy(request);
    const asked = { method, url, settings, anonymousAt: isAnonymous ? address : forwarded?.anonymousAt };
    const ofLeader = await this.#leader.answer({ ...asked, address, isForwarded: forwarded !== undefined });
    return ofLeader ?? { ...(await this.#answerHere(id, asked)), askedBy: forwarded?.address };
  }

  async #answerHere(id: string, { method, settings, anonymousAt }: Asked): Promise<Answer> {
    if (method === "GET") return anonymousAt === undefined ? this.#get(id) : this.#getWithoutLogin(id, anonymousAt);
    if (method === "PUT") return this.#put(id, settings);
    if (method !== "DELETE") return NOT_FOUND;
    await this.#options.current().tablet.transact((tx) => tx.registrySettings.delete(id));
    return OK;
  }

  async #get(id: string): Promise<Answer> {
    const found = await this.#settingsOf(id);
    return found === undefined ? NOT_FOUND : answerWith(found);
  }

  /**
   * Returns the settings only to the VM's own address. Other clients get the same refusal for known and unknown ids.
   */
  async #getWithoutLogin(id: string, address: string): Promise<Answer> {
    const found = await this.#settingsOf(id);
    return found !== undefined && this.#ipsOf(found).includes(address) ? answerWith(found) : denied(NO_LOGIN);
  }

  #settingsOf(id: string): Promise<BoshRegistrySettings | undefined> {
    return this.#options.current().tablet.read((tables) => tables.registrySettings.get(id));
  }

  /** Returns the VM's addresses. They are cached because unauthenticated clients may ask any number of times. */
  #ipsOf(settings: BoshRegistrySettings): readonly string[] {
    const known = this.#ips.get(settings);
    if (known !== undefined) return known;
    const ips = ipsOf(JSON.parse(settings.settings) as JsonObject);
    this.#ips.set(settings, ips);
    return ips;
  }

  async #put(id: string, settings: string): Promise<Answer> {
    const { maxInstances: instances } = this.#options.limits;
    const agentId = agentIdOf(objectOf(settings));
    const stored = await this.#options.current().tablet.transact((tx) => {
      if (!tx.registrySettings.has(id) && tx.registrySettings.size >= instances) return false;
      tx.registrySettings.put({ id, settings, agentId });
      return true;
    });
    if (stored) return OK;
    return refused(507, `the bosh-registry already has settings of ${instances} instances, its limit`);
  }
}

function idOf(url: string): string | undefined {
  const encoded = PATH.exec(url)?.[1];
  if (encoded === undefined) return undefined;
  try {
    const id = decodeURIComponent(encoded);
    return id.length <= MAX_ID_LENGTH ? id : undefined;
  } catch {
    return undefined;
  }
}

function answerWith({ settings }: BoshRegistrySettings): Answer {
  return { code: 200, body: { status: "ok", settings } };
}

/** Returns the body; undefined when it exceeds the limit. */
async function bodyOf(request: IncomingMessage, limitBytes: number): Promise<string | undefined> {
  const pieces: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const piece of request as AsyncIterable<Buffer>) {
      sizeBytes += piece.length;
      // The body is read to its end, because a client that is cut off while sending does not see the answer.
      if (sizeBytes <= limitBytes) pieces.push(piece);
    }
  } catch (error) {
    throw new InvalidArgumentError("the request ended before its body was complete", { cause: error });
  }
  if (sizeBytes > limitBytes) return undefined;
  return Buffer.concat(pieces).toString("utf8");
}

/** Throws InvalidArgumentError. The message quotes nothing of the text, which holds credentials. */
function objectOf(text: string): JsonObject {
  const value = parseJson("the text of the settings", text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw new InvalidArgumentError("the settings are not a JSON object");
}
