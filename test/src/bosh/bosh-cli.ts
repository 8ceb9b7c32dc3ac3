import type { FollowedTask, HttpAnswer, HttpClient } from "@diskmesh/director/testing";
import { expect } from "chai";
import type { ProcessVms } from "../process-vms/process-vms.js";

/** Header of Go's HTTP client, which unpacks answers by itself; the director never compresses. */
const ALWAYS = { "accept-encoding": "gzip" };
export const YAML = { ...ALWAYS, "content-type": "text/yaml" };
export const JSON_TYPE = { ...ALWAYS, "content-type": "application/json" };
export const TGZ = { ...ALWAYS, "content-type": "application/x-compressed" };
const NO_LOGIN = "";

/** Types of the fields that the CLI reads; "?" marks a field that may be null or absent. */
export type Read = Readonly<
  Record<string, "string" | "number" | "boolean" | "string?" | "number?" | "object?" | "strings">
>;

/** Sends the recorded requests of the stock CLI's commands, each over its own TLS connection. */
export class BoshCli {
  readonly #http: HttpClient;

  constructor({ mesh }: ProcessVms) {
    this.#http = mesh.http();
  }

  /** Requests /info without a login, as the CLI does before each command. */
  async begin(): Promise<void> {
    const { features, user_authentication, ...info } = await this.info(NO_LOGIN);
    reads(info, { name: "string", uuid: "string", version: "string", cpi: "string" });
    expect(user_authentication).to.deep.equal({ type: "basic", options: {} });
    expect(features).to.be.an("object");
  }

  async info(login?: string): Promise<Record<string, unknown>> {
    const answer = await this.#http.send("GET", "/info", { headers: ALWAYS, ...(login !== undefined && { login }) });
    expect(answer.status).to.equal(200);
    return JSON.parse(answer.body) as Record<string, unknown>;
  }

  send(method: string, path: string, headers: Record<string, string> = ALWAYS, body?: string | Buffer) {
    return this.#http.send(method, path, { headers, ...(body !== undefined && { body }) });
  }

  async get<T>(path: string): Promise<T> {
    return parsed<T>(await this.send("GET", path));
  }

  async post<T>(path: string, value: object, status = 200): Promise<T> {
    return parsed<T>(await this.send("POST", path, JSON_TYPE, JSON.stringify(value)), status);
  }

  /** Sends a request that starts a task, and follows it to its end: 302, the task, its events by ranges, its result. */
  async task(method: string, path: string, headers: Record<string, string> = ALWAYS, body: string | Buffer = "") {
    const followed = await this.#http.task(method, path, { headers, ...(method !== "GET" && { body }) });
    readsTask(followed.task);
    return followed;
  }

  async done(method: string, path: string, headers?: Record<string, string>, body?: string | Buffer) {
    const followed = await this.task(method, path, headers, body);
    expect(followed.task.state, JSON.stringify(followed.events.at(-1))).to.equal("done");
    return followed;
  }
}

export function parsed<T>({ status, body }: HttpAnswer, wanted = 200): T {
  expect(status, body).to.equal(wanted);
  return JSON.parse(body) as T;
}

/**
 * Checks the types that the CLI reads. Go's JSON decoder accepts null for any type, and fails for any other mismatch.
 */
export function reads(found: object, fields: Read): void {
  for (const [name, type] of Object.entries(fields)) {
    const value = (found as Record<string, unknown>)[name];
    if (type.endsWith("?") && (value === null || value === undefined)) continue;
    if (type === "strings") {
      expect(value, name).to.be.an("array");
      for (const each of value as unknown[]) expect(each, name).to.be.a("string");
    } else expect(value, name).to.be.a(type.replace("?", ""));
  }
}

export function readsTask(task: object): void {
  reads(task, { id: "number", state: "string", description: "string", timestamp: "number?", started_at: "number?" });
  reads(task, { user: "string", result: "string?", deployment: "string?", context_id: "string?" });
}

/** Parses the result of a task, which has one JSON value per line. */
export function linesOf<T>({ result }: FollowedTask): T[] {
  return result
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as T);
}

/** Expects a refusal in the format that the CLI prints. */
export function refused(answer: HttpAnswer): void {
  expect(answer.status).to.be.within(400, 599).and.not.equal(500);
  reads(JSON.parse(answer.body) as object, { code: "number", description: "string" });
}
