import { createConnection } from "node:net";
import { COMMAND, encodeInfoRequest, encodeOption, encodeRequest, OPTION } from "@diskmesh/disk-agent/nbd-protocol";
import type { Random } from "../../random.js";
import { type Conversation, conversation, converse } from "../conversation.js";
import { randomBytes } from "../strange.js";
import { Counts, type Surface } from "../surface.js";
import { came } from "../targets.js";

const CONNECT_TIMEOUT_MS = 5_000;
const SIZES = [0, 1, 512, 4_096, 2 ** 20, 2 ** 24, 32 * 2 ** 20, 32 * 2 ** 20 + 1, 2 ** 31, 2 ** 32 - 1];
const OFFSETS = [0n, 1n, 4_096n, 2n ** 20n - 1n, 2n ** 20n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n];

/** NBD options and requests in any order and of any length, on the socket of a disk without other users. */
export class NbdSurface implements Surface {
  readonly name = "nbd";
  readonly atOnce = 6;
  readonly counts = new Counts();

  constructor(private readonly socketPath: string) {}

  next(random: Random): Buffer {
    const parts = [flags(random)];
    for (let count = random.pick([0, 0, 1, 3, 50]); count > 0; count--) parts.push(anyOption(random));
    if (random.chance(0.8))
      parts.push(random.chance(0.8) ? go(random) : encodeOption(OPTION.EXPORT_NAME, Buffer.alloc(0)));
    for (let count = random.chance(0.02) ? 200 : random.pick([0, 1, 3, 10]); count > 0; count--)
      parts.push(request(random));
    return Buffer.from(JSON.stringify(conversation(random, parts)));
  }

  async send(input: Buffer): Promise<void> {
    const socket = createConnection({ path: this.socketPath });
    socket.on("error", () => this.counts.add("connections that failed"));
    socket.setTimeout(CONNECT_TIMEOUT_MS, () => socket.destroy());
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    await came(socket, "connect");
    const heard = await converse(socket, JSON.parse(input.toString()) as Conversation);
    this.counts.add(heard.length > 18 ? "answered" : "not answered");
    await closed;
  }
}

function flags(random: Random): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(random.chance(0.95) ? random.below(4) : random.below(2 ** 32));
  return bytes;
}

function go(random: Random): Buffer {
  const infos = Array.from({ length: random.pick([0, 1, 3, 1_000]) }, () => random.below(6));
  return encodeOption(random.chance(0.8) ? OPTION.GO : OPTION.INFO, encodeInfoRequest("", infos));
}

function anyOption(random: Random): Buffer {
  const option = random.pick([OPTION.LIST, OPTION.INFO, OPTION.ABORT, 4, 5, 8, 9, 10, random.below(2 ** 32)]);
  const data = randomBytes(random, random.pick([0, 0, 4, 6, 100, 8_192, 8_193]));
  if (random.chance(0.9)) return encodeOption(option, data);
  const wrong = encodeOption(option, data);
  wrong.writeUInt32BE(random.pick([0, data.length + 1, 2 ** 31, 2 ** 32 - 1]), 12);
  return wrong;
}

function request(random: Random): Buffer {
  const command = random.chance(0.9) ? random.pick([0, 0, 1, 1, 3]) : random.pick([2, 4, 5, 6, 7, 0xffff]);
  const lengthBytes = random.chance(0.9) ? random.pick(SIZES.slice(0, 4)) : random.pick(SIZES);
  const head = encodeRequest({
    flags: random.chance(0.8) ? random.below(2) : random.below(65_536),
    command,
    cookie: BigInt(random.below(4)),
    offsetBytes: random.pick(OFFSETS),
    lengthBytes,
  });
  if (random.chance(0.02)) head.writeUInt32BE(random.below(2 ** 32), 0);
  if (command !== COMMAND.WRITE) return head;
  // A payload above the limit is announced but not sent, as a malicious client may do.
  const payload = lengthBytes <= 2 ** 20 && random.chance(0.95) ? lengthBytes : random.below(100);
  return Buffer.concat([head, Buffer.alloc(payload, random.below(256))]);
}
