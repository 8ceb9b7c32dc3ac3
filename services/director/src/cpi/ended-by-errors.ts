import { messageOf } from "@diskmesh/domain";
import type { Begun } from "../audit/events.js";

/** Runs work and ends the begun event when the work throws. */
export async function endedByErrors<Result>(begun: Begun | undefined, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    begun?.end({ error: messageOf(error) });
    throw error;
  }
}
