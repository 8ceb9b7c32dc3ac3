import { setTimeout as delay } from "node:timers/promises";
import { messageOf, TimeoutError } from "@diskmesh/domain";
import type { MethodDefinition } from "@grpc/grpc-js";
import { service as healthDefinition } from "grpc-health-check";
import type { ClientOptions } from "./client.js";
import type { ServiceDefinition } from "./definition.js";
import { createClient } from "./following.js";

export interface WaitForHealthOptions extends Omit<ClientOptions, "address" | "defaultDeadlineMs"> {
  /** `host:port` of the server. */
  readonly address: string;
  /** Name of one service; empty, the default, for the server as a whole. */
  readonly service?: string;
  /** Whether any answer will do, as of a standby that listens but does not serve. */
  readonly accept?: "serving" | "any";
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

const TRY_TIMEOUT_MS = 1_000;
const TRY_EVERY_MS = 50;

const check = healthDefinition.Check as MethodDefinition<{ service: string }, { status: string }>;

/** The library's own, in the shape of the generated definitions. */
const HEALTH = {
  fullName: "grpc.health.v1.Health",
  methods: {
    check: {
      name: "Check",
      requestType: {
        fromPartial: ({ service = "" }: { service?: string }) => ({ service }),
        encode: (request: { service: string }) => ({ finish: () => check.requestSerialize(request) }),
        decode: (bytes: Uint8Array) => check.requestDeserialize(Buffer.from(bytes)),
      },
      requestStream: false,
      responseType: {
        fromPartial: ({ status = "UNKNOWN" }: { status?: string }) => ({ status }),
        encode: (response: { status: string }) => ({ finish: () => check.responseSerialize(response) }),
        decode: (bytes: Uint8Array) => check.responseDeserialize(Buffer.from(bytes)),
      },
      responseStream: false,
    },
  },
} as const satisfies ServiceDefinition;

/** Resolves when a server's health check says SERVING. Throws TimeoutError with what it said last. */
export async function waitForHealth(options: WaitForHealthOptions): Promise<void> {
  const client = createClient(HEALTH, { ...options, defaultDeadlineMs: TRY_TIMEOUT_MS });
  const untilMs = performance.now() + options.timeoutMs;
  let last = "it was not asked";
  try {
    while (performance.now() < untilMs) {
      options.signal?.throwIfAborted();
      try {
        const { status } = await client.check(options.service === undefined ? {} : { service: options.service });
        if (status === "SERVING" || options.accept === "any") return;
        last = status;
      } catch (error) {
        last = messageOf(error);
      }
      await delay(TRY_EVERY_MS, undefined, options.signal ? { signal: options.signal } : {});
    }
  } finally {
    client.close();
  }
  throw new TimeoutError(`${options.address} does not serve after ${options.timeoutMs} ms: ${last}`, {
    about: { address: options.address },
  });
}
