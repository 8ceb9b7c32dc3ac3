import { setTimeout as delay } from "node:timers/promises";
import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { messageOf, TimeoutError } from "@diskmesh/domain";
import type { Client } from "../call/definition.js";
import type { ClientOptions } from "./client.js";
import { createClient } from "./following.js";

export interface WaitForHealthOptions extends Omit<ClientOptions, "address" | "defaultDeadlineMs"> {
  /** `host:port` of the server. */
  readonly address: string;
  /** Name of one service; by default the whole server. */
  readonly service?: string;
  /** "any" accepts every status, e.g. of a standby, which answers but does not serve. */
  readonly accept?: "serving" | "any";
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

const TRY_TIMEOUT_MS = 1_000;
const TRY_EVERY_MS = 50;

/** Resolves when a server's health check reports SERVING. Throws TimeoutError with the last answer. */
export async function waitForHealth(options: WaitForHealthOptions): Promise<void> {
  const client = createClient(HealthDefinition, { ...options, defaultDeadlineMs: TRY_TIMEOUT_MS });
  const untilMs = performance.now() + options.timeoutMs;
  let last = "the health check was not sent";
  try {
    while (performance.now() < untilMs) {
      options.signal?.throwIfAborted();
      try {
        const { status } = await client.check(options.service === undefined ? {} : { service: options.service });
        if (status === "SERVING" || options.accept === "any") return;
        last = `${status}${await missingParts(client)}`;
      } catch (error) {
        last = messageOf(error);
      }
      await delay(TRY_EVERY_MS, undefined, options.signal ? { signal: options.signal } : {});
    }
  } finally {
    client.close();
  }
  throw new TimeoutError(`${options.address} does not serve within ${options.timeoutMs} ms: ${last}`, {
    about: { address: options.address },
  });
}

/** Health entries of the whole process rather than of a dependency. */
const NO_NEEDS: ReadonlySet<string> = new Set(["", "ready", "standby"]);

/**
 * Returns the missing dependencies that a server reports in its health entries. Skips entries with dots, which are
 * services.
 */
async function missingParts(client: Client<typeof HealthDefinition>): Promise<string> {
  const { statuses } = await client.list({});
  const isMissing = ([part, health]: [string, { status: string }]) =>
    !NO_NEEDS.has(part) && !part.includes(".") && health.status === "NOT_SERVING";
  const missing = Object.entries(statuses).filter(isMissing);
  return missing.length === 0 ? "" : `, because it lacks: ${missing.map(([part]) => part).join(", ")}`;
}
