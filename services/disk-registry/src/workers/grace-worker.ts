import type { DiskId } from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import { type DeletedDisk, freeDisk, isDeleted, mayBeErased } from "../model/disks/deleted-disks.js";
import { disksToErase, type Needed } from "../model/disks/pressure.js";
import { IS_NOTED, noteWithoutChange } from "../model/events/events.js";
import type { RegistryTransaction } from "../model/store/schema.js";
import { eventLimits } from "../requests/limits.js";
import type { WorkContext } from "./work-context.js";

/** Maximum delay in ms of a look at a deleted disk: the clock may be set, and what keeps the disk may end. */
const MAX_WAIT_MS = 600_000;

/** Erases deleted disks whose time has passed, or whose bytes are needed. */
export class GraceWorker {
  constructor(private readonly context: WorkContext) {}

  async process(diskId: DiskId): Promise<WorkResult> {
    const { tablet, clock } = this.context;
    const leftMs = await tablet.read(({ disks }) => {
      const disk = disks.get(diskId);
      return disk?.deleted === undefined ? undefined : disk.deleted.untilMs - clock.nowMs();
    });
    if (leftMs === undefined) return "done";
    if (leftMs > 0) return { retryAfterMs: Math.min(leftMs, MAX_WAIT_MS) };
    return tablet.transact((tx) => {
      const disk = tx.disks.get(diskId);
      if (disk === undefined || !isDeleted(disk) || disk.deleted.untilMs > clock.nowMs()) return "done";
      if (!mayBeErased(tx, disk)) return { retryAfterMs: MAX_WAIT_MS };
      this.#erase(tx, disk, "its time has passed", { routine: true });
      return "done";
    }, IS_NOTED);
  }

  async makeRoom(needed: Needed | undefined): Promise<boolean> {
    const erased = await this.context.tablet.transact((tx) => {
      const disks = disksToErase(tx, needed);
      const pool = needed === undefined ? "" : ` of pool ${needed.request.pool}`;
      const why = `before its time, because a disk of ${needed?.request.sizeBytes} bytes${pool} has no other room`;
      const text = needed === undefined ? "before its time, because the registry has too many disks" : why;
      for (const disk of disks) this.#erase(tx, disk, text);
      return disks.length;
    }, IS_NOTED);
    return erased > 0;
  }

  /** Frees the disk's devices, whose erase begins with the commit, and notes it. */
  #erase(tx: RegistryTransaction, disk: DeletedDisk, message: string, as: { readonly routine?: true } = {}): void {
    const { config, clock, log } = this.context;
    const deviceIds = [...new Set(freeDisk(tx, disk))];
    const event = { user: "disk-registry", action: "DeletedDiskErased", hostIds: [], answer: "", message, ...as };
    const things = { deviceIds: deviceIds.slice(0, 64), diskIds: [disk.diskId] };
    noteWithoutChange(tx, { ...event, ...things }, eventLimits(config), clock.nowMs());
    log.info({ diskId: disk.diskId, reason: message }, "deleted disk erased");
  }
}
