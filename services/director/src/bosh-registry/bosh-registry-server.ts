import { createHash, timingSafeEqual } from "node:crypto";
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

import type { DirectorConfig } from "../config.js";
import { agentIdOf, type BoshRegistrySettings, ipsOf } from "../model/bosh-registry-settings.js";
import type { JsonObject } from "../model/json.js";
import type { DirectorTablet } from "../stored-schema.js";

type BoshRegistryConfig = NonNullable<DirectorConfig["boshRegistry"]>;

export interface BoshRegistryServerOptions {
  /** Undefined when operators want none. */
  readonly config: BoshRegistryConfig | undefined;
  readonly tablet: DirectorTablet;
  readonly log: Logger;
}

interface Answer {
  readonly code: number;
  /** `message` is ours: CPIs look at the code alone. */
  readonly body: { readonly status: string; readonly settings?: string; readonly message?: string };
}

const OK: Answer = { code: 200, body: { status: "ok" } };
const NOT_FOUND: Answer = { code: 404, body: { status: "not_found" } };
const DENIED: Answer = { code: 401, body: { status: "access_denied" } };
const refused = (code: number, message: string): Answer => ({ code, body: { status: "error", message } });

// Chosen by CPIs; a key of a table and part of a URL, nothing else.
const PATH = /^\/instances\/([^/?#]{1,768})\/settings$/;
const MAX_ID_LENGTH = 255;

const MAX_LOOK_INTERVAL_MS = 5_000;

/**
 * The bosh-registry HTTP API: where CPIs of version 1 leave what agents of version 1 read. It listens from the moment when
 * something needs it. Settings hold credentials: nothing of them is ever logged.
 */
export class BoshRegistryServer {
  readonly #options: BoshRegistryServerOptions;
  readonly #ips = new WeakMap<BoshRegistrySettings, readonly string[]>();
  #serving: Promise<Server> | undefined;
  #closed = false;

  constructor(options: BoshRegistryServerOptions) {
    this.#options = options;
  }

  /** At the start, because of VMs that use it. */
  async start(): Promise<void> {
    const users = await this.#options.tablet.read((tables) => tables.instances.count("byRegistry", "yes"));
    if (users === 0) return;
    await this.ensureServing().catch((error: unknown) =>
      this.#options.log.error(
        { error: messageOf(error) },
        "cannot serve the bosh-registry, which agents of some VMs need",
      ),
    );
  }

  /** Before a CPI or an agent needs it. */
  async ensureServing(): Promise<void> {
    this.#serving ??= this.#listen();
    try {
      await this.#serving;
    } catch (error) {
      this.#serving = undefined;
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const server = await this.#serving?.catch(() => undefined);
    if (server === undefined) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  async #listen(): Promise<Server> {
    const { config, log } = this.#options;
    if (config === undefined || this.#closed) {
      throw new InvalidStateError("the bosh-registry is off: add `boshRegistry` to the director's config");
    }
    const { requestTimeoutMs } = config;
    // Node looks at times only so often; the whole request's limit holds for its headers too.
    const times = { requestTimeout: requestTimeoutMs, headersTimeout: requestTimeoutMs };
    const looks = { connectionsCheckingInterval: Math.min(requestTimeoutMs, MAX_LOOK_INTERVAL_MS) };
    const server = createServer({ ...times, ...looks }, (request, response) => {
      void this.#serve(config, request, response);
    });
    server.maxConnections = config.maxConnections;
    const { host, port } = config.listen;
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error) =>
        reject(new InvalidStateError(`the bosh-registry cannot listen on ${host}:${port}: ${messageOf(error)}`)),
      );
      server.listen(port, host, resolve);
    });
    // A connection that cannot be accepted is no reason to end.
    server.on("error", (error) => log.warn({ error: messageOf(error) }, "a connection to the bosh-registry failed"));
    log.info({ address: `${host}:${(server.address() as AddressInfo).port}` }, "the bosh-registry serves");
    return server;
  }

  async #serve(config: BoshRegistryConfig, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = await this.#answer(config, request).catch((error: unknown) => this.#answerTo(error));
    const { message: reason } = answer.body;
    if (reason !== undefined)
      this.#options.log.warn({ code: answer.code, reason }, "the bosh-registry refused a request");
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (answer.code === 401) headers["www-authenticate"] = 'Basic realm="Registry"';
    response.writeHead(answer.code, headers).end(JSON.stringify(answer.body));
    // The body of a request that was refused unread must not be waited for.
    if (!request.complete) request.destroy();
  }

  #answerTo(error: unknown): Answer {
    if (error instanceof InvalidArgumentError) return refused(400, error.message);
    if (error instanceof UnavailableError) return refused(503, error.message);
    this.#options.log.error({ error: messageOf(error) }, "a request to the bosh-registry failed");
    return { code: 500, body: { status: "error" } };
  }

  async #answer(config: BoshRegistryConfig, request: IncomingMessage): Promise<Answer> {
    const id = idOf(request.url ?? "");
    if (id === undefined) return NOT_FOUND;
    const authorized = isAuthorized(config, request.headers.authorization);
    if (request.method === "GET") return this.#get(id, authorized, request);
    if (!authorized) return DENIED;
    if (request.method === "PUT") return this.#put(config, id, await bodyOf(request, config.maxSettingsBytes));
    if (request.method !== "DELETE") return NOT_FOUND;
    await this.#options.tablet.transact((tx) => tx.registrySettings.delete(id));
    return OK;
  }

  /** Credentials that are wrong are refused; without any, an agent may ask from its VM's own address. */
  async #get(id: string, authorized: boolean, request: IncomingMessage): Promise<Answer> {
    if (!authorized && request.headers.authorization !== undefined) return DENIED;
    const found = await this.#options.tablet.read((tables) => tables.registrySettings.get(id));
    if (!authorized) {
      const address = (request.socket.remoteAddress ?? "").replace(/^::ffff:/, "");
      if (found === undefined || !this.#ipsOf(found).includes(address)) return DENIED;
    }
    return found === undefined ? NOT_FOUND : { code: 200, body: { status: "ok", settings: found.settings } };
  }

  /** Read once: whoever reaches the port may ask as often as they like. */
  #ipsOf(settings: BoshRegistrySettings): readonly string[] {
    const known = this.#ips.get(settings);
    if (known !== undefined) return known;
    const ips = ipsOf(JSON.parse(settings.settings) as JsonObject);
    this.#ips.set(settings, ips);
    return ips;
  }

  async #put(config: BoshRegistryConfig, id: string, settings: string | undefined): Promise<Answer> {
    const { maxSettingsBytes, maxInstances: instances } = config;
    if (settings === undefined) {
      return refused(413, `the settings have more than ${maxSettingsBytes} bytes (boshRegistry.maxSettingsBytes)`);
    }
    const agentId = agentIdOf(objectOf(settings));
    const stored = await this.#options.tablet.transact((tx) => {
      if (!tx.registrySettings.has(id) && tx.registrySettings.size >= instances) return false;
      tx.registrySettings.put({ id, settings, agentId });
      return true;
    });
    if (stored) return OK;
    return refused(507, `there are settings of ${instances} instances, which is the limit (boshRegistry.maxInstances)`);
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

function isAuthorized(config: BoshRegistryConfig, header: string | undefined): boolean {
  const expected = `Basic ${Buffer.from(`${config.user}:${config.password}`).toString("base64")}`;
  return timingSafeEqual(sha256(header ?? ""), sha256(expected));
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Undefined when it is too long. */
async function bodyOf(request: IncomingMessage, limitBytes: number): Promise<string | undefined> {
  const pieces: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const piece of request as AsyncIterable<Buffer>) {
      sizeBytes += piece.length;
      // Read to its end all the same: who is still sending would be cut off, and not hear why.
      if (sizeBytes <= limitBytes) pieces.push(piece);
    }
  } catch (error) {
    throw new InvalidArgumentError("the request ended before its body did", { cause: error });
  }
  if (sizeBytes > limitBytes) return undefined;
  return Buffer.concat(pieces).toString("utf8");
}

/** Throws InvalidArgumentError, which quotes nothing of it. */
function objectOf(text: string): JsonObject {
  const value = parseJson("the text of the settings", text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw new InvalidArgumentError("the settings are no JSON object");
}
