import type { Socket } from "node:net";
import type { Random } from "../../random.js";
import { randomBytes, spoilBytes } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";
import { type Caller, came, closedWithin, TARGETS, type Target, type Targets } from "../targets.js";

/** Bytes of a stranger on a TLS port. */
export interface TlsInput {
  readonly target: Target;
  readonly act: "bytes" | "handshake";
  /** Data in base64, for `bytes`. */
  readonly writes: readonly string[];
  /** Only for `handshake`: the client certificate, if any, and the data after the handshake. */
  readonly caller?: Caller;
  readonly alpn?: string;
  readonly version?: "TLSv1.2" | "TLSv1.3";
  /** Time in ms for which the client keeps the connection open, whatever the server sends. */
  readonly stayMs: number;
}

/** Maximum number of unfinished handshakes that stay open. */
const HELD_OPEN = 60;

/** Connections to a TLS port: data that is no TLS, unfinished handshakes, and certificates that are not of the mesh. */
export class TlsSurface implements Surface {
  readonly name = "tls";
  readonly atOnce = 4;
  readonly counts = new Counts();
  /** Connections with unfinished handshakes, oldest first. */
  readonly #held: Socket[] = [];

  constructor(
    private readonly targets: Targets,
    /** ClientHello of an ordinary client, recorded by `recordHello`. */
    private readonly hello: Buffer,
  ) {}

  next(random: Random): Buffer {
    const target = random.pick(TARGETS);
    const stayMs = random.pick([0, 5, 20]);
    const input: TlsInput = random.chance(0.8)
      ? {
          target,
          act: "bytes",
          writes: this.#writes(random).map((bytes) => bytes.toString("base64")),
          stayMs: random.chance(0.05) ? 5_000 : stayMs,
        }
      : {
          target,
          act: "handshake",
          writes: random.chance(0.5) ? [randomBytes(random, 40).toString("base64")] : [],
          ...(random.chance(0.7) && { caller: random.pick(["stranger", "operator", "nats"] as const) }),
          alpn: random.pick(["h2", "http/1.1", "nothing"]),
          version: random.pick(["TLSv1.2", "TLSv1.3"]),
          stayMs,
        };
    return Buffer.from(JSON.stringify(input));
  }

  async send(input: Buffer): Promise<void> {
    const read = JSON.parse(input.toString()) as TlsInput;
    await (read.act === "bytes" ? this.#bytes(read) : this.#handshake(read));
  }

  close(): void {
    for (const socket of this.#held) socket.destroy();
  }

  #writes(random: Random): Buffer[] {
    const { hello } = this;
    switch (random.below(6)) {
      case 0:
        return [randomBytes(random, random.pick([0, 1, 5, 100, 20_000]))];
      case 1:
        return [hello.subarray(0, random.below(hello.length))];
      case 2:
        return [hello, randomBytes(random, random.pick([1, 5, 500]))];
      case 3:
        return [hello, record(random)];
      case 4:
        return [
          Buffer.from(
            random.pick(["GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n\r\n", "NBDMAGIC"]),
          ),
        ];
      default:
        return [spoilBytes(random, hello)];
    }
  }

  async #bytes({ target, writes, stayMs }: TlsInput): Promise<void> {
    const socket = this.targets.tcp(this.targets.port(target));
    if (!(await came(socket, "connect"))) return this.counts.add("not let in");
    for (const write of writes) if (!socket.destroyed) socket.write(Buffer.from(write, "base64"));
    if (stayMs >= 1_000) return this.#hold(socket);
    await closedWithin(socket, stayMs);
    this.counts.add("bytes");
  }

  async #handshake({ target, writes, caller, alpn, version, stayMs }: TlsInput): Promise<void> {
    const options = { ALPNProtocols: [alpn ?? "h2"], ...(version && { minVersion: version, maxVersion: version }) };
    const socket = this.targets.tls(target, caller, options);
    let heard = 0;
    socket.on("data", (bytes: Buffer) => {
      heard += bytes.length;
    });
    // Sends the data in any case: with TLS 1.3 the client's handshake ends before the server has verified its
    // certificate.
    const open = await came(socket, "secureConnect");
    for (const write of writes) if (!socket.destroyed) socket.write(Buffer.from(write, "base64"));
    await closedWithin(socket, Math.max(stayMs, open ? 5 : 0));
    this.counts.add(open ? "handshakes that ended" : "handshakes refused");
    if (heard > 0 && (caller === undefined || caller === "stranger"))
      throw new Find(
        `${target} spoke to one ${caller === undefined ? "without a certificate" : "of another authority"}: ${heard} bytes`,
      );
  }

  #hold(socket: Socket): void {
    this.counts.add("left half open");
    this.#held.push(socket);
    if (this.#held.length > HELD_OPEN) this.#held.shift()?.destroy();
  }
}

/** Returns a TLS record with random contents. */
function record(random: Random): Buffer {
  const payload = randomBytes(random, random.pick([0, 1, 100, 16_384]));
  const head = Buffer.from([random.pick([20, 21, 22, 23, 24, random.below(256)]), 3, random.below(5), 0, 0]);
  head.writeUInt16BE(random.chance(0.7) ? payload.length : random.below(65_536), 3);
  return Buffer.concat([head, payload]);
}
