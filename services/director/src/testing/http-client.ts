import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { type Agent, request } from "node:https";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import type { TestCertificates } from "@diskmesh/testkit";

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The body as UTF-8. */
  readonly body: string;
  readonly bytes: Buffer;
}

export interface HttpRequest {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** "name:password"; empty for no login. */
  readonly login?: string;
}

/** Sends requests as the bosh CLI does: each over its own TLS connection, with redirects followed as GET. */
export class HttpClient {
  readonly #ca: Buffer;

  constructor(
    certs: Pick<TestCertificates, "files">,
    readonly port: number,
    readonly login: string,
    /** The address to connect to. Certificates are checked for 127.0.0.1, so any address of this machine works. */
    private readonly host = "127.0.0.1",
    /** An agent that reuses connections. `false` opens a connection for each request, as the CLI does. */
    private readonly agent: Agent | false = false,
  ) {
    this.#ca = readFileSync(certs.files("operator").caFile);
  }

  /** Sends one request. Does not follow redirects. */
  send(
    method: string,
    path: string,
    { headers = {}, body, login = this.login }: HttpRequest = {},
  ): Promise<HttpAnswer> {
    const { host, port, agent } = this;
    const sent: Record<string, string> = { "user-agent": "Go-http-client/1.1", ...headers };
    if (agent === false) sent.connection ??= "close";
    if (login !== "") sent.authorization ??= `Basic ${Buffer.from(login).toString("base64")}`;
    if (body !== undefined) sent["content-length"] = String(Buffer.byteLength(body));
    if (body !== undefined && body.length > 0) sent["content-type"] ??= typeOf(body);
    const named = (_host: string, certificate: PeerCertificate) => checkServerIdentity("127.0.0.1", certificate);
    const tls = { ca: this.#ca, agent, checkServerIdentity: named };
    const options = { host, port, method, path, headers: sent, ...tls };
    return new Promise((resolve, reject) => {
      const sending = request(options, (response) => {
        const pieces: Buffer[] = [];
        response.on("data", (piece: Buffer) => pieces.push(piece));
        response.on("error", reject);
        response.on("end", () => {
          const bytes = Buffer.concat(pieces);
          const body = bytes.toString("utf8");
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body, bytes });
        });
      });
      sending.on("error", reject);
      sending.end(body);
    });
  }

  async json(path: string): Promise<unknown> {
    const { status, body } = await this.send("GET", path);
    if (status !== 200) throw new Error(`GET ${path} was answered with ${status}: ${body}`);
    return JSON.parse(body);
  }

  /** Starts a task and follows it to its end, as the CLI does. */
  async task(method: string, path: string, request: HttpRequest = {}): Promise<FollowedTask> {
    const started = await this.send(method, path, request);
    const { location } = started.headers;
    if (started.status !== 302 || location === undefined)
      throw new Error(`${method} ${path} was answered with ${started.status}: ${started.body}`);
    let events = "";
    for (;;) {
      const task = (await this.json(location)) as TaskObject;
      const range = { range: `bytes=${Buffer.byteLength(events)}-` };
      const more = await this.send("GET", `${location}/output?type=event`, { headers: range });
      if (more.status === 206) events += more.body;
      else if (more.status !== 416) throw new Error(`events were answered with ${more.status}: ${more.body}`);
      if (["queued", "processing", "cancelling"].includes(task.state)) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
      const result = (await this.send("GET", `${location}/output?type=result`)).body;
      return {
        task,
        events: events
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line)),
        result,
      };
    }
  }
}

/** Returns the content type that the CLI sends for a stemcell, JSON, a manifest or a config. */
function typeOf(body: string | Buffer): string {
  if (typeof body !== "string") return "application/x-compressed";
  return /^\s*(?:[[{"]|null$|\d+$)/.test(body) ? "application/json" : "text/yaml";
}

export interface TaskObject {
  readonly id: number;
  readonly state: string;
  readonly description: string;
  readonly result: string | null;
  readonly user: string;
}

export interface FollowedTask {
  readonly task: TaskObject;
  readonly events: readonly { readonly [name: string]: unknown }[];
  readonly result: string;
}
