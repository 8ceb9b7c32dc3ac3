import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import type { Random } from "../../random.js";
import type { ProtoMessages } from "../proto-messages.js";
import { randomBytes, spoilBytes, strangeText } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";
import { CALLERS, type Caller, TARGETS, type Target, type Targets } from "../targets.js";

/** An encoded call. */
export interface WireCall {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** Data to send in base64, in one or more DATA frames each. */
  readonly chunks: readonly string[];
  readonly ends: boolean;
  /** Undefined: cancelled after the answer or the timeout. */
  readonly cancelAfterMs?: number;
}

/** Calls that are sent in one turn, on one connection. */
export interface GrpcInput {
  readonly target: Target;
  readonly caller: Caller;
  readonly calls: readonly WireCall[];
}

const SERVICES: Readonly<Record<Target, RegExp>> = {
  director: /^\/diskmesh\.director\./,
  "cpi-dispatcher": /^\/diskmesh\.cpi\./,
  "disk-registry": /^\/diskmesh\.(?:registry\.|internal\.v1\.AgentRegistrationService)/,
  "disk-agent": /^\/diskmesh\.internal\.v1\.(?:DiskAgent|AgentDriver)Service/,
};
const OTHER_PATHS = [
  "/grpc.health.v1.Health/Check",
  "/grpc.health.v1.Health/Watch",
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "/diskmesh.registry.v1.DiskRegistryService/NoSuchMethod",
  "/no.such.Service/Method",
  "/",
  "",
  "no-slash",
];
const CONTENT_TYPES = [
  "application/grpc",
  "application/grpc+proto",
  "application/json",
  "text/html",
  "",
  "application/grpc-web",
];
const ENCODINGS = ["identity", "gzip", "deflate", "snappy", "br"];
const TIMEOUTS = ["200m", "1S", "0m", "1n", "99999999H", "-1S", "x", "1"];

/** Timeout in ms of a call that is not cancelled. */
const PATIENCE_MS = 5_000;
const CALLS_PER_SESSION = 400;
const INTERNAL = /internal error; the server's log has it/;

/** Calls of all methods, with all roles and with errors in every part. */
export class GrpcSurface implements Surface {
  readonly name = "grpc";
  readonly atOnce = 8;
  readonly counts = new Counts();
  readonly #sessions = new Map<string, { session: ClientHttp2Session; calls: number }>();

  constructor(
    private readonly targets: Targets,
    private readonly messages: ProtoMessages,
  ) {}

  next(random: Random): Buffer {
    const target = random.pick(TARGETS);
    const caller: Caller = random.chance(0.02)
      ? "stranger"
      : random.pick(random.chance(0.5) ? ROLES_OF[target] : CALLERS);
    const calls = Array.from({ length: random.pick([1, 1, 1, 2, 4]) }, () => this.#nextCall(random, target));
    return Buffer.from(JSON.stringify({ target, caller, calls } satisfies GrpcInput));
  }

  async send(input: Buffer): Promise<void> {
    const { target, caller, calls } = JSON.parse(input.toString()) as GrpcInput;
    const session = this.#session(target, caller, calls.length);
    await connected(session);
    await Promise.all(calls.map((call) => this.#call(session, call, `${caller} to ${target}`)));
  }

  close(): void {
    // Destroys sessions in another turn of the event loop. A bug of Node makes it use freed streams when a session is
    // destroyed while Node receives data.
    for (const { session } of this.#sessions.values()) setImmediate(() => session.destroy());
  }

  #nextCall(random: Random, target: Target): WireCall {
    const method = random.pick(this.messages.methods.filter(({ path }) => SERVICES[target].test(path)));
    const path = random.chance(0.88)
      ? method.path
      : random.chance(0.8)
        ? random.pick(OTHER_PATHS)
        : strangePath(random);
    const count = method.requestStream ? random.below(4) : random.pick([1, 1, 1, 1, 1, 0, 2]);
    const chunks = Array.from({ length: count }, () => frame(random, this.messages.encode(random, method.request)));
    const ends = random.chance(0.9);
    // Cancels watches, which do not end, and incomplete requests, which get no answer.
    const cancelled = !ends || method.responseStream || random.chance(0.35);
    return {
      path,
      headers: headers(random),
      chunks: chunks.flatMap((bytes) => inPieces(random, bytes)).map((bytes) => bytes.toString("base64")),
      ends,
      ...(cancelled && { cancelAfterMs: random.pick([0, 0, 1, 2, 5, 50, 300]) }),
    };
  }

  #session(target: Target, caller: Caller, calls: number): ClientHttp2Session {
    const key = `${target}/${caller}`;
    const known = this.#sessions.get(key);
    if (known && !known.session.closed && !known.session.destroyed && known.calls < CALLS_PER_SESSION) {
      known.calls += calls;
      return known.session;
    }
    known?.session.close();
    const session = connect("https://localhost", { createConnection: () => this.targets.tls(target, caller) });
    session.on("error", () => this.counts.add("connections that failed"));
    session.setTimeout(10_000, () => session.destroy());
    this.#sessions.set(key, { session, calls });
    return session;
  }

  async #call(session: ClientHttp2Session, call: WireCall, who: string): Promise<void> {
    let stream: ClientHttp2Stream;
    try {
      const own = { ":method": "POST", ":path": call.path, te: "trailers" };
      stream = session.request({ ...own, ...(call.headers as Record<string, string>) }, { endStream: false });
    } catch {
      this.counts.add("refused by our own client");
      return;
    }
    const ended = endOf(stream);
    for (const chunk of call.chunks) stream.write(Buffer.from(chunk, "base64"));
    if (call.ends) stream.end();
    const leave = () => {
      stream.close(constants.NGHTTP2_CANCEL);
      // Reads the data, because a stream with unread data does not close.
      stream.resume();
    };
    const giveUp = setTimeout(leave, call.cancelAfterMs ?? PATIENCE_MS);
    if (call.cancelAfterMs === 0) stream.close(constants.NGHTTP2_CANCEL);
    const { status, message } = await ended;
    clearTimeout(giveUp);
    this.counts.add(status === undefined ? "without an answer" : `status ${status}`);
    if (INTERNAL.test(message)) throw new Find(`${call.path} by ${who} is answered as a bug: ${message}`);
  }
}

/** Roles that each service accepts, so that half of the calls pass the role check. */
const ROLES_OF: Readonly<Record<Target, readonly Caller[]>> = {
  director: ["operator"],
  "cpi-dispatcher": ["director", "operator"],
  "disk-registry": ["operator", "cpi-dispatcher", "disk-agent"],
  "disk-agent": ["disk-registry", "operator", "disk-agent"],
};

/** Resolves when calls can be sent, or the connection has failed. */
function connected(session: ClientHttp2Session): Promise<void> {
  return new Promise((resolve) => {
    if (!session.connecting || session.destroyed) return resolve();
    session.once("connect", () => resolve());
    session.once("close", () => resolve());
  });
}

function endOf(stream: ClientHttp2Stream): Promise<{ status: string | undefined; message: string }> {
  let status: string | undefined;
  let message = "";
  const read = (headers: Record<string, unknown>): void => {
    if (typeof headers["grpc-status"] === "string") status = headers["grpc-status"];
    if (typeof headers["grpc-message"] === "string") message += decode(headers["grpc-message"]);
  };
  stream.on("response", read);
  stream.on("trailers", read);
  stream.on("error", () => {});
  stream.resume();
  return new Promise((resolve) => stream.once("close", () => resolve({ status, message })));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns a gRPC message frame; its flag or length may be wrong. */
function frame(random: Random, message: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head[0] = random.chance(0.95) ? 0 : random.pick([1, 2, 255]);
  const wrong = random.chance(0.05);
  head.writeUInt32BE(
    wrong ? random.pick([0, 1, message.length + 1, 0x7fffffff, 0xffffffff, 5_000_000]) : message.length,
    1,
  );
  const whole = Buffer.concat([head, message]);
  return random.chance(0.03) ? spoilBytes(random, whole) : whole;
}

function inPieces(random: Random, bytes: Buffer): Buffer[] {
  if (random.chance(0.8)) return [bytes];
  const at = random.below(bytes.length + 1);
  return [bytes.subarray(0, at), bytes.subarray(at)];
}

function headers(random: Random): Record<string, string | string[]> {
  const all: Record<string, string | string[]> = {
    "content-type": random.chance(0.92) ? "application/grpc" : random.pick(CONTENT_TYPES),
  };
  if (random.chance(0.5)) all["grpc-timeout"] = random.pick(TIMEOUTS);
  if (random.chance(0.05)) all["grpc-encoding"] = random.pick(ENCODINGS);
  if (random.chance(0.1)) all["x-request-id"] = headerValue(random);
  if (random.chance(0.05)) all.traceparent = headerValue(random);
  if (random.chance(0.05)) all["fuzz-bin"] = randomBytes(random, 20).toString("base64");
  if (random.chance(0.02)) for (let index = random.pick([10, 100, 1_000]); index > 0; index--) all[`x-${index}`] = "v";
  if (random.chance(0.02)) all["x-long"] = "v".repeat(random.pick([1_000, 8_000, 60_000]));
  if (random.chance(0.02)) all[":method"] = random.pick(["GET", "PUT", "OPTIONS", "PRI"]);
  return all;
}

/** Returns a random header value that Node's client can send. */
function headerValue(random: Random): string {
  return strangeText(random).replace(/[^\x21-\x7e]/g, "?");
}

function strangePath(random: Random): string {
  return `/${headerValue(random)}/${headerValue(random)}`;
}
