import { ResourceExhaustedError } from "@diskmesh/domain";
import type { RegistryTables } from "../store/schema.js";
import { capacityOf } from "./capacity.js";
import type { WhySuspected } from "./placement.js";

interface Growth {
  readonly az: string;
  readonly pool: string;
  readonly sizeBytes: number;
}

/** Refuses bytes that have to stay free, so that any one host of the pool can be emptied. Reads all devices of the az. */
export function requireRepairRoom(
  tables: RegistryTables,
  { az, pool, sizeBytes }: Growth,
  whySuspected: WhySuspected,
): void {
  const [capacity] = capacityOf(tables, { az, pool }, { whySuspected, maxDevices: 1 });
  if (capacity === undefined) return;
  const leftBytes = capacity.soonFreeBytes - sizeBytes;
  if (leftBytes < 0 || leftBytes >= capacity.repairBytes) return;
  throw new ResourceExhaustedError(
    `${sizeBytes} more bytes of disks would leave ${leftBytes} bytes free in pool ${pool} of az ${az}, and ${capacity.repairBytes} have to stay free, so that any one host can be emptied (keepRepairRoom of the pool): add devices or delete disks`,
    { reason: "NO_DEVICES_FIT", about: { pool } },
  );
}
