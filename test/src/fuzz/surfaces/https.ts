import { allRoutes } from "@diskmesh/director/testing";
import type { Random } from "../../random.js";
import { type Conversation, conversation, converse } from "../conversation.js";
import { jsonText, strangeJson, strangeText } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";
import { came, type Targets } from "../targets.js";
import { isForged, type MeantToken, meantToken, signed, type UaaKeys } from "./meant-tokens.js";

const METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get", "X\0", ""];
const PARTS = ["%", "%00", "%zz", "%ff", "..", "//", "\\", "?", "#", ";", "[]", "*", "-1", "0", "1", "NaN", "%F0%9F"];
const MORE_PARTS = ["99999999999999999999", "__proto__", "constructor", "$(x)", "a".repeat(3_000), "é", ":id"];
const FIELDS = [
  "type",
  "limit",
  "state",
  "verbose",
  "name",
  "deployment",
  "context",
  "before_id",
  "task",
  "skip_drain",
];
const VALUES = ["", "1", "-1", "deploy", "cloud", "{", '{"cloud_config_ids":[{}]}', "a,b,,", "true", "2026-13-45"];
const BODIES = [
  "",
  "{",
  "[]",
  "null",
  '"x"',
  "1e999",
  '{"__proto__":{"a":1}}',
  '{"disk_name":{"$gt":""}}',
  '{"disk_size":-1}',
  '{"from":{"id":"1"},"to":{}}',
  '{"config":null,"states":[1]}',
  "[".repeat(5_000),
  "\xff\xfe",
  "---\n- &a [*a]",
  "a: &x [*x, *x]",
  "name: ../../x",
  "\x1f\x8b\x08",
];
const TYPES = [
  "application/json",
  "text/yaml",
  "application/x-compressed",
  "multipart/form-data; boundary=x",
  ";",
  "\0",
];
const RANGES = ["0-", "5-1", "-5", "99999999999999999999-", "a-b", "0-1,2-3", "", "0-\0"].map(
  (range) => `bytes=${range}`,
);
const LOGINS = ["Basic", "Basic !!!!", `Basic ${"A".repeat(4_000)}`, "Bearer", "Bearer a.b.c", "Digest x=y", "\0", ""];
const HEADERS = [":", "a b: c", "Content-Length: 3", "Expect: 200-ok", "Upgrade: h2c", "Transfer-Encoding: x"];

/** Placeholder for the token, replaced when the request is sent. */
const TOKEN = "(token)";
/** Routes without a login. */
const OPEN_ROUTES = [
  { method: "GET", path: "/info" },
  { method: "GET", path: "/healthz" },
  { method: "GET", path: "/readyz" },
  { method: "PUT", path: "/agent-logs/:upload" },
] as const;

interface HttpsInput extends Conversation {
  /** Token of each request that has the placeholder. */
  readonly token?: MeantToken;
  /** True when the token must be refused: a successful request with it is a find. */
  readonly forged?: boolean;
}

/**
 * Requests of a client that knows the routes of the director's HTTPS API but not their use: with a password, with valid
 * and invalid tokens, or without a login.
 */
export class HttpsSurface implements Surface {
  readonly name = "https";
  readonly atOnce = 16;
  readonly counts = new Counts();

  constructor(
    private readonly targets: Targets,
    private readonly face: { readonly port: number; readonly login: string; readonly uaa: UaaKeys },
  ) {}

  next(random: Random): Buffer {
    const token = random.chance(0.4) ? meantToken(random) : undefined;
    // A forged token is in each request, so every success is a find.
    const forged = token !== undefined && isForged(token);
    const routes = forged ? ROUTES : [...ROUTES, ...OPEN_ROUTES, ...OPEN_ROUTES];
    const login = () =>
      token !== undefined && (forged || random.chance(0.7)) ? `Bearer ${TOKEN}` : this.#login(random);
    const count = random.pick([1, 1, 1, 2, 5]);
    const requests = Array.from({ length: count }, () => request(random, random.pick(routes), login()));
    const input: HttpsInput = { ...conversation(random, requests), ...(token && { token, forged }) };
    return Buffer.from(JSON.stringify(input));
  }

  async send(input: Buffer): Promise<void> {
    const socket = this.targets.https(this.face.port);
    if (!(await came(socket, "secureConnect"))) return this.counts.add("not let in");
    const { token, forged, ...said } = JSON.parse(input.toString()) as HttpsInput;
    const writes = token === undefined ? said.writes : withToken(said.writes, signed(token, this.face.uaa));
    const heard = (await converse(socket, { ...said, writes })).toString("latin1");
    const statuses = [...heard.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status = ""]) => status);
    for (const status of statuses.length === 0 ? ["not answered"] : statuses) this.counts.add(status);
    // 501 is correct for a method that is not served.
    const bug = statuses.find((status) => status >= "500" && status !== "501");
    if (bug !== undefined) throw new Find(`a request over HTTPS is answered with ${bug}: ${heard.slice(0, 1_000)}`);
    if (forged !== true) return;
    const letIn = statuses.find((status) => /^[23]/.test(status));
    if (letIn !== undefined) throw new Find(`a forged token is believed: ${heard.slice(0, 1_000)}`);
    if (statuses.includes("401")) this.counts.add("forged tokens refused");
  }

  #login(random: Random): string {
    const known = `Basic ${Buffer.from(this.face.login).toString("base64")}`;
    return random.chance(0.9) ? known : random.pick(LOGINS);
  }
}

function request(random: Random, { method, path }: { readonly method: string; readonly path: string }, login: string) {
  const parts = path
    .split("/")
    .map((part) => (part.startsWith(":") || random.chance(0.08) ? strangePart(random) : part));
  const query = Array.from(
    { length: random.pick([0, 0, 1, 3]) },
    () => `${random.pick(FIELDS)}=${strangeValue(random)}`,
  );
  const target = parts.join("/") + (query.length === 0 ? "" : `?${query.join("&")}`);
  const body = strangeBody(random);
  const lines = [
    `${random.chance(0.8) ? method : random.pick(METHODS)} ${target} HTTP/1.${random.chance(0.95) ? 1 : 7}`,
    "Host: director",
    ...(login === "" ? [] : [`Authorization: ${login}`]),
  ];
  if (random.chance(0.5)) lines.push(`Content-Type: ${random.pick(TYPES)}`);
  if (random.chance(0.3)) lines.push(`Range: ${random.pick(RANGES)}`);
  if (random.chance(0.9)) lines.push(`Content-Length: ${body.length + (random.chance(0.06) ? 1 : 0)}`);
  else lines.push(`Transfer-Encoding: ${random.pick(["chunked", "gzip", "x"])}`);
  if (random.chance(0.06)) lines.push(random.pick(HEADERS));
  if (random.chance(0.03)) lines.push(`X-Bosh-Context-Id: ${"x".repeat(random.pick([1, 64, 65]))}`);
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), body]);
}

/** Replaces the placeholder by the token. */
function withToken(writes: readonly string[], token: string): string[] {
  return writes.map((write) => {
    const bytes = Buffer.from(write, "base64").toString("latin1").replaceAll(TOKEN, token);
    return Buffer.from(bytes, "latin1").toString("base64");
  });
}

/** All routes except the one that would cancel the tasks of the mesh check. */
const ROUTES = allRoutes.filter(({ path }) => path !== "/tasks/cancel");

function strangePart(random: Random): string {
  return random.pick(random.chance(0.7) ? PARTS : MORE_PARTS);
}

function strangeValue(random: Random): string {
  if (random.chance(0.3)) return random.pick(PARTS);
  return encodeURIComponent(
    random.chance(0.7) ? random.pick(VALUES) : Buffer.from(strangeText(random)).toString(),
  ).slice(0, 4_000);
}

function strangeBody(random: Random): Buffer {
  if (random.chance(0.7)) return Buffer.from(random.pick(BODIES), "latin1");
  return jsonText(random, { disk_name: strangeJson(random, 1), instance_id: "x", config: strangeJson(random) });
}
