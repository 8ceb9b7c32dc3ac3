import type { Random } from "../../random.js";
import { type Conversation, conversation, converse } from "../conversation.js";
import { jsonText, randomBytes, strangeJson, strangeText } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";
import { came, type Targets } from "../targets.js";

const METHODS = ["GET", "PUT", "DELETE", "POST", "HEAD", "OPTIONS", "PATCH", "CONNECT", "G\0T"];
const INSTANCES = ["fuzz-1", "fuzz-2", "..", "%2e%2e%2f", "a%00b", "%ff", "%E0%A4%A", "a/b"];

interface RegistryHttpInput extends Conversation {
  /** Source address of the request. */
  readonly from: string;
}

/** The bosh-registry of API version 1, which serves HTTP without TLS to any client. */
export class RegistryHttpSurface implements Surface {
  readonly name = "registry-http";
  readonly atOnce = 8;
  readonly counts = new Counts();

  constructor(
    private readonly targets: Targets,
    private readonly registry: { readonly port: number; readonly user: string; readonly password: string },
  ) {}

  next(random: Random): Buffer {
    const requests = Array.from({ length: random.pick([1, 1, 2, 10]) }, () => this.#request(random));
    // Random source address, because failed logins slow their address down, and a single address would soon be refused.
    const from = `127.7.${random.below(256)}.${random.below(256)}`;
    return Buffer.from(JSON.stringify({ ...conversation(random, requests), from } satisfies RegistryHttpInput));
  }

  async send(input: Buffer): Promise<void> {
    const { from, ...said } = JSON.parse(input.toString()) as RegistryHttpInput;
    const socket = this.targets.tcp(this.registry.port, from);
    if (!(await came(socket, "connect"))) return this.counts.add("not let in");
    const heard = (await converse(socket, said)).toString("latin1");
    if (/^HTTP\/1\.1 500/m.test(heard)) throw new Find(`a request to the bosh-registry is answered as a bug: ${heard}`);
    this.counts.add(/^HTTP\/1\.1 (\d+)/.exec(heard)?.[1] ?? "not answered");
  }

  #request(random: Random): Buffer {
    const { user, password } = this.registry;
    const method = random.chance(0.85) ? random.pick(METHODS.slice(0, 3)) : random.pick(METHODS);
    const instance = random.chance(0.7) ? random.pick(INSTANCES) : encodeURIComponent(wellFormed(strangeText(random)));
    const path = random.chance(0.9) ? `/instances/${instance}/settings` : strangeText(random).replace(/[\s\0]/g, "");
    const body = method === "PUT" || random.chance(0.05) ? settings(random) : Buffer.alloc(0);
    const known = Buffer.from(`${user}:${password}`).toString("base64");
    const lines = [`${method} ${path} HTTP/1.${random.chance(0.9) ? 1 : random.below(10)}`, "Host: registry"];
    if (random.chance(0.7)) lines.push(`Authorization: Basic ${random.chance(0.85) ? known : strangeText(random)}`);
    const length = random.chance(0.9) ? body.length : random.pick([0, 1, body.length + 1, 2 ** 31, -1, Number.NaN]);
    if (random.chance(0.85)) lines.push(`Content-Length: ${length}`);
    else if (random.chance(0.5)) return chunked(random, lines, body);
    if (random.chance(0.05)) lines.push("Expect: 100-continue");
    if (random.chance(0.05)) lines.push("Upgrade: h2c", "Connection: Upgrade");
    if (random.chance(0.05)) lines.push(`X: ${"v".repeat(random.pick([10, 10_000, 20_000]))}`);
    return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), body]);
  }
}

function settings(random: Random): Buffer {
  const value = {
    vm: { name: "v" },
    agent_id: "fuzz",
    networks: { a: { ip: "127.0.0.2" } },
    disks: strangeJson(random),
  };
  if (random.chance(0.05)) return randomBytes(random, random.pick([100, 10_000, 1_100_000]));
  return jsonText(random, random.chance(0.7) ? value : strangeJson(random));
}

function chunked(random: Random, lines: readonly string[], body: Buffer): Buffer {
  const size = random.chance(0.8) ? body.length.toString(16) : random.pick(["ffffffff", "-1", "zz", "0", "1"]);
  const head = `${[...lines, "Transfer-Encoding: chunked"].join("\r\n")}\r\n\r\n${size}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), body, Buffer.from("\r\n0\r\n\r\n")]);
}

/** Replaces halves of surrogate pairs, which encodeURIComponent refuses. */
const wellFormed = (text: string): string => Buffer.from(text).toString();
