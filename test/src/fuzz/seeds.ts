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
} from "./http2-frames.js";
import type { ConfigInput } from "./surfaces/configs.js";
import type { GrpcInput, WireCall } from "./surfaces/grpc.js";
import type { Http2Input } from "./surfaces/http2.js";
import { TARGETS, type Target } from "./targets.js";

/** An input that once caused a fault. Kept seeds are sent first in every run, and by `npm test`. */
export interface KeptSeed {
  readonly surface: string;
  /** Fault that the input caused. */
  readonly did: string;
  readonly input: () => Buffer;
}

const HEALTH: WireCall = {
  path: HEALTH_CHECK,
  headers: { "content-type": "application/grpc" },
  chunks: [Buffer.alloc(5).toString("base64")],
  ends: true,
};
/**
 * Encodes ten calls that are answered at once, each followed by a call that is reset. Node receives the resets while it
 * writes the answers.
 */
function answeredAndReset(firstStream: number): Buffer {
  const headers = callHeaders("/no.such.Service/Method");
  const fields = Buffer.concat(headers.map(([name, value]) => header(name, value)));
  const pieces = Array.from({ length: 10 }, (_, index) => {
    const answered = firstStream + 4 * index;
    const call = frame(TYPE.HEADERS, END_HEADERS, answered, fields);
    const end = frame(TYPE.DATA, END_STREAM, answered, Buffer.alloc(5));
    const other = frame(TYPE.HEADERS, END_HEADERS, answered + 2, fields);
    return [call, end, other, frame(TYPE.RST_STREAM, 0, answered + 2, u32(8))];
  });
  return Buffer.concat(pieces.flat());
}

function http2(target: Target, writes: readonly Buffer[]): Buffer {
  const input: Http2Input = {
    target,
    caller: "operator",
    writes: writes.map((bytes) => bytes.toString("base64")),
    end: "close",
    lingerMs: 1_000,
  };
  return Buffer.from(JSON.stringify(input));
}

function grpc(target: Target, calls: readonly WireCall[]): Buffer {
  return Buffer.from(JSON.stringify({ target, caller: "operator", calls } satisfies GrpcInput));
}

const KEPT_SEEDS: readonly KeptSeed[] = [
  ...TARGETS.map(
    (target): KeptSeed => ({
      surface: "http2",
      did: "ended the process: calls that no method takes, reset before they were looked at",
      input: () => {
        const opening = Buffer.concat([PREFACE, frame(TYPE.SETTINGS, 0, 0, Buffer.alloc(0))]);
        return http2(target, [opening, ...Array.from({ length: 70 }, (_, piece) => answeredAndReset(40 * piece + 1))]);
      },
    }),
  ),
  {
    surface: "grpc",
    did: "bytes that are no reflection request: answered as a bug of ours, and all others waited while descriptors were made",
    input: () => {
      const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
      return grpc("disk-registry", [
        { ...HEALTH, path, chunks: [Buffer.from("0000000002ffff", "hex").toString("base64")] },
      ]);
    },
  },
  {
    surface: "configs",
    did: "ended the director: a million brackets",
    input: () => config("[".repeat(1_000_000)),
  },
  {
    surface: "configs",
    did: "kept the director busy for a minute: sixty thousand keys that nobody knows",
    input: () => config(Array.from({ length: 60_000 }, (_, index) => `k${index}: v\n`).join("")),
  },
];

function config(text: string): Buffer {
  const content = Buffer.from(text).toString("base64");
  return Buffer.from(JSON.stringify({ as: "diff", type: "cloud", content } satisfies ConfigInput));
}

/** Returns the kept inputs of a surface, for the indexes -1, -2 and so on. */
export function keptSeedsOf(surface: string): readonly KeptSeed[] {
  return KEPT_SEEDS.filter((seed) => seed.surface === surface);
}
