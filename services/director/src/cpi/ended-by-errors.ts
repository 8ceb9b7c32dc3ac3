import { messageOf } from "@diskmesh/domain";
import type { Begun } from "../audit/events.js";

/** What keeps a call from being made ends what was told of it. */
export async function endedByErrors<Result>(begun: Begun | undefined, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    begun?.end({ error: messageOf(error) });
    throw error;
  }
}
