import type { DomainError } from "@diskmesh/domain";
import { expect } from "chai";
import type { RegistryClient } from "./test-registry.js";

/** A registry call that a test makes with the client it is given. */
export type Call = (client: RegistryClient) => Promise<unknown>;

/** Request that watches all devices. */
export const WATCH = { hostId: "", attachState: "ATTACH_STATE_UNSPECIFIED", pool: "", resumeToken: "" } as const;

/** Returns the first message of a stream, and ends the stream. */
export async function firstOf<T>(stream: AsyncIterable<T>): Promise<T | undefined> {
  for await (const message of stream) return message;
  return undefined;
}

/**
 * Asserts that a call fails with the named error, that its message contains `says`, and that it names `field` if given.
 */
export async function refused(promise: Promise<unknown>, name: string, says: string, field?: string): Promise<void> {
  let error: DomainError | undefined;
  await promise.catch((reason: DomainError) => {
    error = reason;
  });
  expect(error?.name, error?.message ?? "it was not refused").to.equal(name);
  expect(error?.message).to.contain(says);
  if (field !== undefined) expect(error?.about.field).to.equal(field);
  expect(error?.message.length, "an error never repeats a long input").to.be.below(1_000);
}
