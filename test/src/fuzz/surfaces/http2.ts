import type { Random } from "../../random.js";
import { type Conversation, conversation, converse } from "../conversation.js";
import {
  callHeaders,
  END_HEADERS,
  END_STREAM,
  frame,
  HEALTH_CHECK,
  header,
  PREFACE,
  TYPE,
  u32,
} from "../http2-frames.js";
import { randomBytes } from "../strange.js";
import { Counts, type Surface } from "../surface.js";
import { CALLERS, type Caller, came, TARGETS, type Target, type Targets } from "../targets.js";

/** Hand-made frames on one connection. */
export interface Http2Input extends Conversation {
  readonly target: Target;
  readonly caller: Caller;
}

/** HTTP/2 that no library writes: floods, frames out of order, missing streams, and wrong lengths. */
export class Http2Surface implements Surface {
  readonly name = "http2";
  readonly atOnce = 6;
  readonly counts = new Counts();

  constructor(private readonly targets: Targets) {}

  next(random: Random): Buffer {
    const writes: Buffer[] = [];
    if (random.chance(0.97)) writes.push(Buffer.concat([PREFACE, frame(TYPE.SETTINGS, 0, 0, settings(random))]));
    let stream = 1;
    // Repeats one kind of frame, as some races require, or mixes all kinds.
    const one = random.chance(0.1);
    for (let step = one ? 50 : random.pick([1, 3, 10, 30]); step > 0; step--) {
      writes.push(one ? answeredAndReset(random, stream, 10) : chapter(random, stream));
      if (one) stream += 40;
      else if (random.chance(0.6)) stream += 2;
    }
    const said = conversation(random, writes);
    const input: Http2Input = { target: random.pick(TARGETS), caller: random.pick(CALLERS), ...said };
    return Buffer.from(JSON.stringify(input));
  }

  async send(input: Buffer): Promise<void> {
    const { target, caller, ...said } = JSON.parse(input.toString()) as Http2Input;
    const socket = this.targets.tls(target, caller);
    if (!(await came(socket, "secureConnect"))) return this.counts.add("refused at once");
    const heard = await converse(socket, said);
    this.counts.add(heard.length > 0 ? "answered" : "not answered");
  }
}

function chapter(random: Random, stream: number): Buffer {
  const other = random.chance(0.1) ? random.pick([0, 2, 0x7fffffff, stream + 2, Math.max(1, stream - 2)]) : stream;
  const times = random.chance(0.02) ? 1_000 : random.pick([1, 1, 1, 5, 20, 60]);
  switch (random.below(13)) {
    case 0:
      return repeated(times, () => frame(TYPE.SETTINGS, random.chance(0.2) ? 1 : 0, 0, settings(random)));
    case 1:
      return repeated(times, () =>
        frame(TYPE.PING, random.chance(0.2) ? 1 : 0, 0, randomBytes(random, random.chance(0.9) ? 8 : 3)),
      );
    case 2: {
      // Opens and resets streams at once, each time two ids further.
      let id = stream - 2;
      return repeated(times, () => {
        id += 2;
        return Buffer.concat([request(random, id, END_HEADERS), frame(TYPE.RST_STREAM, 0, id, u32(8))]);
      });
    }
    case 3:
      return Buffer.concat([
        request(random, other, 0),
        repeated(times, () =>
          frame(TYPE.CONTINUATION, 0, other, header("x-fuzz", "v".repeat(random.pick([0, 10, 200])))),
        ),
        random.chance(0.5) ? frame(TYPE.CONTINUATION, END_HEADERS, other, Buffer.alloc(0)) : Buffer.alloc(0),
      ]);
    case 4:
      return Buffer.concat([
        request(random, other, END_HEADERS),
        repeated(times, () => frame(TYPE.DATA, 0, other, Buffer.alloc(0))),
      ]);
    case 5:
      return frame(
        TYPE.DATA,
        random.pick([0, END_STREAM, 8]),
        other,
        randomBytes(random, random.pick([0, 5, 100, 16_384, 16_385])),
      );
    case 6:
      return repeated(times, () =>
        frame(TYPE.WINDOW, 0, random.chance(0.5) ? 0 : other, u32(random.pick([0, 1, 2 ** 31 - 1, 2 ** 32 - 1]))),
      );
    case 7:
      return frame(
        TYPE.GOAWAY,
        0,
        0,
        Buffer.concat([
          u32(random.pick([0, 1, 2 ** 31 - 1])),
          u32(random.below(16)),
          randomBytes(random, random.pick([0, 8, 1_000])),
        ]),
      );
    case 8:
      return repeated(times, () =>
        frame(
          TYPE.PRIORITY,
          0,
          other,
          Buffer.concat([u32(random.pick([0, other, 2 ** 31 + 1])), Buffer.from([random.below(256)])]),
        ),
      );
    case 9:
      return frame(random.below(256), random.below(256), other, randomBytes(random, random.pick([0, 4, 8, 100])));
    case 10:
      return frame(TYPE.RST_STREAM, 0, other, u32(random.below(20)));
    case 11:
      return answeredAndReset(random, stream, times);
    default:
      return Buffer.concat([
        request(random, other, END_HEADERS),
        frame(TYPE.DATA, random.chance(0.8) ? END_STREAM : 0, other, Buffer.from([0, 0, 0, 0, 0])),
      ]);
  }
}

/** Encodes calls that are answered, between calls that are reset at once. */
function answeredAndReset(random: Random, firstStream: number, times: number): Buffer {
  let stream = firstStream - 2;
  return repeated(times, () => {
    stream += 4;
    const answered = request(random, stream - 2, END_HEADERS);
    const end = frame(TYPE.DATA, END_STREAM, stream - 2, Buffer.alloc(5));
    return Buffer.concat([
      answered,
      end,
      request(random, stream, END_HEADERS),
      frame(TYPE.RST_STREAM, 0, stream, u32(8)),
    ]);
  });
}

function repeated(times: number, make: () => Buffer): Buffer {
  return Buffer.concat(Array.from({ length: times }, make));
}

function settings(random: Random): Buffer {
  return repeated(random.pick([0, 0, 1, 3, 50]), () => {
    const one = Buffer.alloc(6);
    one.writeUInt16BE(random.pick([1, 2, 3, 4, 5, 6, 8, 0xffff]), 0);
    one.writeUInt32BE(random.pick([0, 1, 100, 16_384, 65_535, 2 ** 31 - 1, 2 ** 32 - 1]), 2);
    return one;
  });
}

function request(random: Random, stream: number, flags: number): Buffer {
  const path = random.chance(0.7) ? HEALTH_CHECK : random.pick(["/no.such.Service/Method", "/", ""]);
  const all = callHeaders(path, random.chance(0.9) ? "application/grpc" : "text/html");
  const kept = random.chance(0.85) ? all : all.filter(() => random.chance(0.7));
  const fields = kept.map(([name, value]) => header(name, value));
  if (random.chance(0.05)) fields.push(randomBytes(random, 12));
  return frame(TYPE.HEADERS, flags, stream, Buffer.concat(fields));
}
