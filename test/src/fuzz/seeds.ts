import type { GrpcInput, WireCall } from "./surfaces/grpc.js";
import type { TARGETS } from "./targets.js";

/** An input that once did what none may do. It is sent before all others, in every run and by `npm test`. */
export interface KeptSeed {
  readonly surface: string;
  /** What it did. */
  readonly did: string;
  readonly input: () => Buffer;
}

const HEALTH: WireCall = {
  path: "/grpc.health.v1.Health/Check",
  headers: { "content-type": "application/grpc" },
  chunks: [Buffer.alloc(5).toString("base64")],
  ends: true,
};
const NO_METHOD: WireCall = { ...HEALTH, path: "/no.such.Service/Method", ends: false, cancelAfterMs: 1 };
const NO_GRPC: WireCall = { ...NO_METHOD, path: HEALTH.path, headers: { "content-type": "text/html" } };

function grpc(target: (typeof TARGETS)[number], calls: readonly WireCall[]): Buffer {
  return Buffer.from(JSON.stringify({ target, caller: "operator", calls } satisfies GrpcInput));
}

export const KEPT_SEEDS: readonly KeptSeed[] = [
  ...(["director", "cpi-dispatcher", "disk-registry", "disk-agent"] as const).map(
    (target): KeptSeed => ({
      surface: "grpc",
      did: "ended the process: calls that no method takes, cancelled at once beside others on their connection",
      input: () => grpc(target, Array.from({ length: 50 }, () => [NO_METHOD, NO_GRPC, HEALTH, HEALTH]).flat()),
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
    surface: "config-files",
    did: "printed a stack, and a password that begins with a star: an alias of nothing",
    input: () => Buffer.from("aregistry: *password\n"),
  },
];

/** The kept inputs of a surface, as those with the indexes -1, -2 and so on. */
export function keptSeedsOf(surface: string): readonly KeptSeed[] {
  return KEPT_SEEDS.filter((seed) => seed.surface === surface);
}
