import { setTimeout as delay } from "node:timers/promises";
import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { messageOf, TimeoutError } from "@diskmesh/domain";
import type { ClientOptions } from "./client.js";
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

/** Resolves when a server's health check says SERVING. Throws TimeoutError with what it said last. */
export async function waitForHealth(options: WaitForHealthOptions): Promise<void> {
  const client = createClient(HealthDefinition, { ...options, defaultDeadlineMs: TRY_TIMEOUT_MS });
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
