import { expect } from "chai";
import type { RegistryClient } from "./test-registry.js";

/** A call that a test makes by some client. */
export type Call = (operator: RegistryClient) => Promise<unknown>;

/** Of all devices. */
export const WATCH = { hostId: "", attachState: "ATTACH_STATE_UNSPECIFIED", pool: "", resumeToken: "" } as const;

/** The first message of a stream, which is ended then. */
export async function firstOf<T>(stream: AsyncIterable<T>): Promise<T | undefined> {
  for await (const message of stream) return message;
  return undefined;
}

/** That a call fails by an error of that name, which says so. */
export async function refused(promise: Promise<unknown>, name: string, says: string): Promise<void> {
  let error: Error | undefined;
  await promise.catch((reason: Error) => {
    error = reason;
  });
  expect(error?.name, error?.message ?? "it was not refused").to.equal(name);
  expect(error?.message).to.contain(says);
  expect(error?.message.length, "an error never repeats a long input").to.be.below(1_000);
}
