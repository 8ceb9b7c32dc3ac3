import { NoRoomError } from "../model/disks/pressure.js";
import type { ChangeContext } from "./context.js";

/**
 * Runs an allocation, and once more when it was refused and deleted disks were erased for it: it then says that it fits
 * once their devices are erased.
 */
export async function makingRoom<T>(
  { workers }: Pick<ChangeContext, "workers">,
  allocate: () => Promise<T>,
): Promise<T> {
  try {
    return await allocate();
  } catch (error) {
    // A refused transaction leaves nothing, so the erasing is a transaction of its own.
    if (!(error instanceof NoRoomError) || !(await workers.makeRoom(error.needed))) throw error;
    return allocate();
  }
}
