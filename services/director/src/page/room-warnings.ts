import { bytesText } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ExplainContext } from "../explain/context.js";

type WithRegistries = Pick<ExplainContext, "registries">;
type Asking = Pick<CallContext, "signal">;

/** Timeout of the question how much room there is, without whose answer a plan is shown all the same. */
const CAPACITY_DEADLINE_MS = 3_000;

/** Warns of a size that no pool of the az has room for now; `pool` is empty for any of them. */
export async function roomWarnings(
  { registries }: WithRegistries,
  az: string,
  pool: string,
  sizeBytes: number,
  { signal }: Asking,
): Promise<string[]> {
  const there = (await registries.pools({ signal, deadlineMs: CAPACITY_DEADLINE_MS })).filter((each) => each.az === az);
  const fitting = there.filter((each) => pool === "" || each.pool === pool);
  const largestBytes = Math.max(0, ...fitting.map(({ maxDiskBytes }) => maxDiskBytes));
  // A new disk gets the bytes of deleted disks where there is no other room.
  const isTooLarge = fitting.every(({ maxDiskBytes, deletedBytes }) => sizeBytes > maxDiskBytes + deletedBytes);
  if (fitting.length === 0 || !isTooLarge) return [];
  const where = pool === "" ? `of az ${az}` : `of pool ${pool} in az ${az}`;
  return [
    `it would fail now with NO_SPACE: the largest disk that fits on the devices ${where} is ${bytesText(largestBytes)}`,
  ];
}

/** Warns of a growth for which the disk's pool has not enough free bytes now. */
export async function growthWarnings(
  { registries }: WithRegistries,
  diskCid: string,
  growthBytes: number,
  { signal }: Asking,
): Promise<string[]> {
  const options = { signal, deadlineMs: CAPACITY_DEADLINE_MS };
  const [{ disk }, pools] = await Promise.all([registries.partsOfDisk(diskCid), registries.pools(options)]);
  const own = pools.find(({ az, pool }) => az === disk?.az && pool === disk.pool);
  if (own === undefined || growthBytes <= own.freeBytes + own.deletedBytes) return [];
  return [`it would fail now with NO_SPACE: pool ${own.pool} in az ${own.az} has ${bytesText(own.freeBytes)} free`];
}
