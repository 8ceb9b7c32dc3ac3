import type { HostId } from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import type { StoredChange } from "@diskmesh/tablet";
import { isStepDue, takeSteps } from "../model/hosts/removal-step.js";
import type { Device, Disk, Host } from "../model/store/schema.js";
import { removalLimits } from "../requests/limits.js";
import type { WorkContext } from "./work-context.js";

/** Closes the devices of a host that are to be removed, once their removal waits for nothing else. */
export class RemovalWorker {
  constructor(private readonly context: WorkContext) {}

  async process(hostId: HostId): Promise<WorkResult> {
    const { tablet, clock, liveness, log } = this.context;
    const time = { limits: removalLimits(this.context), nowMs: clock.nowMs(), listenedMs: liveness.totalListenedMs };
    if (!(await tablet.read((tables) => isStepDue(tables, hostId, time)))) return "done";
    const closed = await tablet.transact((tx) => takeSteps(tx, hostId, time));
    if (closed > 0) log.info({ hostId, devices: closed }, "devices to be removed are closed");
    return "done";
  }
}

/** Returns the hosts whose removals may wait for something that the change has ended. */
export function hostsThatMayLeave({ table, document, previous }: StoredChange): readonly HostId[] {
  const before = previous?.document;
  switch (table) {
    case "devices":
      return ([document, before] as (Device | null | undefined)[]).flatMap((device) =>
        device?.removalRequested || device?.unknownSession ? [device.hostId] : [],
      );
    case "hosts": {
      const [now, was] = [document, before] as (Host | null | undefined)[];
      return now && was && (now.state !== was.state || now.assignment !== was.assignment) ? [now.hostId] : [];
    }
    case "disks": {
      const [now, was] = [document, before].map((disk) => (disk as Disk | null | undefined)?.publication?.hostId);
      return was === undefined || was === now ? [] : [was];
    }
    default:
      return [];
  }
}
