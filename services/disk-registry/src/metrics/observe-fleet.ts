import { allEnded, observe } from "@diskmesh/metrics";
import type { Clock } from "@diskmesh/service";
import { follow, Tally, Waits } from "@diskmesh/tablet";
import { moveStateOf } from "../model/store/disk-parts.js";
import { awaitsOrder, type Device, type Disk, type Host, isErasable, isFree, schema } from "../model/store/schema.js";
import { bytesByUse } from "../model/store/slices.js";
import type { Vigil } from "../model/store/vigil.js";
import type { RegistryTablet } from "../store/stored-schema.js";
import {
  ATTACH_STATES,
  DEVICE_USES,
  HEALTHS,
  HOST_STATES,
  MOVE_STATES,
  PUBLICATION_STATES,
  QUEUE_STATES,
  QUEUES,
  registryMetrics,
} from "./declarations.js";
import { RepairRoom } from "./repair-room.js";

type Use = (typeof DEVICE_USES)[number];
/** Key of the bytes of deleted disks in the counts of disks. */
const DELETED_BYTES = "deleted bytes";
type QueueCounts = Readonly<Record<(typeof QUEUES)[number], Readonly<Record<(typeof QUEUE_STATES)[number], number>>>>;

function* worthOfDevice(device: Device): Generator<readonly [string, number]> {
  yield [`${device.attachState} ${device.health}`, 1];
  if (device.attachState === "UNKNOWN" || device.attachState === "DETACHED") return;
  const { disk, dirty, free } = bytesByUse(device);
  const uses: readonly (readonly [Use, number])[] = [
    ["disk", disk],
    [isFree(device) ? "free" : "unusable", free],
    [isErasable(device) ? "dirty" : "unusable", dirty],
  ];
  yield* uses;
}

function* worthOfDisk({ publication, parts, deleted, sizeBytes }: Disk): Generator<readonly [string, number]> {
  yield [deleted === undefined ? (publication?.state ?? "UNPUBLISHED") : "DELETED", 1];
  if (deleted !== undefined) yield [DELETED_BYTES, sizeBytes];
  const moving = moveStateOf(parts);
  if (moving !== undefined) yield [moving, 1];
}

/**
 * Keeps the fleet's counts up to date and reports them when metrics are read; returns a function that stops this. Must
 * be called before the tablet's first transaction.
 */
export async function observeFleet(tablet: RegistryTablet, clock: Clock): Promise<() => void> {
  const hosts = new Tally<Host>(({ state }) => [[state, 1]]);
  const devices = new Tally<Device>(worthOfDevice);
  const orders = new Waits<Device>((device) => (awaitsOrder(device) ? device.stateChangedAtMs : undefined));
  const disks = new Tally<Disk>(worthOfDisk);
  const vigils = new Tally<Vigil>(({ massSilence }) => [["mass silence", massSilence ? 1 : 0]]);
  const room = new RepairRoom();
  const end = await follow(tablet, schema, {
    hosts: [hosts, room.hosts],
    devices: [devices, orders, room.devices],
    disks: [disks, room.disks],
    vigils: [vigils],
  });
  return allEnded([
    end,
    observe(registryMetrics.hosts, (say) => {
      for (const state of HOST_STATES) say(hosts.get(state), { state });
    }),
    observe(registryMetrics.devices, (say) => {
      for (const state of ATTACH_STATES)
        for (const health of HEALTHS) say(devices.get(`${state} ${health}`), { state, health });
    }),
    observe(registryMetrics.capacity, (say) => {
      // The runs of a device do not say which of its disks are deleted.
      const deleted = disks.get(DELETED_BYTES);
      say(deleted, { use: "deleted" });
      for (const use of DEVICE_USES) say(devices.get(use) - (use === "disk" ? deleted : 0), { use });
    }),
    observe(registryMetrics.repairRoom, (say) => say(room.missingBytes())),
    observe(registryMetrics.disks, (say) => {
      for (const state of PUBLICATION_STATES) say(disks.get(state), { state });
    }),
    observe(registryMetrics.moves, (say) => {
      for (const state of MOVE_STATES) say(disks.get(state), { state });
    }),
    observe(registryMetrics.pendingOrders, (say) => say(orders.size)),
    observe(registryMetrics.oldestOrder, (say) => say(Math.max(0, orders.oldestMs(clock.nowMs())) / 1_000)),
    observe(registryMetrics.massSilence, (say) => say(vigils.get("mass silence"))),
  ]);
}

/** Reports the length of each queue; returns a function that stops this. */
export function observeWork(counts: () => QueueCounts): () => void {
  return observe(registryMetrics.work, (say) => {
    const now = counts();
    for (const queue of QUEUES) for (const state of QUEUE_STATES) say(now[queue][state], { queue, state });
  });
}
