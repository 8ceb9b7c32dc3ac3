import { CarryRequest } from "@diskmesh/api/rpc";
import type { Random } from "../../random.js";
import { randomBytes, spoilBytes, strangeText } from "../strange.js";
import type { Target } from "../targets.js";
import { frame, GrpcSurface, inPieces, OTHER_PATHS, type WireCall } from "./grpc.js";

const CARRY = "/diskmesh.rpc.v1.CarrierService/Carry";

const TIMEOUTS_MS = [0, 0, 0, 1, 200, 5_000, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1] as const;
const STRANGE_HEADERS = [
  "x-request-id",
  "traceparent",
  "x-bin",
  ":path",
  "__proto__",
  "grpc-timeout",
  "te",
  "",
] as const;
const NUMBERS = 6;

/** Streams that carry calls, wrong in every part of a message, and in how they end. */
export class CarrierSurface extends GrpcSurface {
  override readonly name = "carrier";

  protected override nextCall(random: Random, target: Target): WireCall {
    const count = random.pick([0, 1, 2, 5, 5, 20]);
    const chunks = Array.from({ length: count }, () => frame(random, this.#message(random, target)));
    const ends = random.chance(0.5);
    const isUnread = random.chance(0.1);
    return {
      path: CARRY,
      headers: { "content-type": "application/grpc" },
      chunks: chunks.flatMap((bytes) => inPieces(random, bytes)).map((bytes) => bytes.toString("base64")),
      ends,
      isUnread,
      ...((!ends || isUnread || random.chance(0.3)) && { cancelAfterMs: random.pick([0, 0, 1, 5, 50, 300]) }),
    };
  }

  #message(random: Random, target: Target): Buffer {
    if (random.chance(0.05)) return randomBytes(random, random.below(40));
    // Few, so that calls are cancelled that are under way, and numbers come again.
    const callNumber = random.chance(0.7) ? random.below(2 ** 32) : random.below(NUMBERS);
    const what = random.chance(0.2)
      ? { $case: "cancel" as const, value: random.chance(0.9) }
      : { $case: "call" as const, value: this.#call(random, target) };
    const message = random.chance(0.03) ? { callNumber } : { callNumber, what };
    const bytes = Buffer.from(CarryRequest.encode(CarryRequest.fromPartial(message)).finish());
    return random.chance(0.05) ? spoilBytes(random, bytes) : bytes;
  }

  #call(random: Random, target: Target) {
    const method = this.pickMethod(random, target);
    const path = random.chance(0.85) ? method.path : random.pick([...OTHER_PATHS, CARRY, strangeText(random)]);
    const request = random.chance(0.002)
      ? Buffer.alloc(random.pick([100_000, 4_000_000]))
      : this.messages.encode(random, method.request);
    return { path, request, timeoutMs: random.pick(TIMEOUTS_MS), metadata: metadata(random) };
  }
}

function metadata(random: Random): Record<string, string> {
  if (random.chance(0.9)) return {};
  const count = random.pick([1, 1, 1, 1, 3, 3, 3, 500]);
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      random.chance(0.3) ? random.pick(STRANGE_HEADERS) : count > 3 ? `x-${index}` : strangeText(random),
      count > 3 ? "v" : strangeText(random),
    ]),
  );
}
