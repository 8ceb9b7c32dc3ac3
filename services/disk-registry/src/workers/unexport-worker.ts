import { type DiskId, type HostId, parseDiskId, parseHostId } from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import { whyNotToldToLetGo } from "../model/devices/orders.js";
import { requireRegistration } from "../model/disks/remembered.js";
import { leaderStamp } from "../requests/wire.js";
import type { WorkContext } from "./work-context.js";

/** An export that is to end: every one of the disk on that host up to that session. */
export interface Unexport {
  readonly hostId: HostId;
  readonly diskId: DiskId;
  readonly sessionNumber: number;
}

// No id holds a space.
export const unexportKey = ({ hostId, diskId, sessionNumber }: Unexport): string =>
  `${hostId} ${diskId} ${sessionNumber}`;

function parseKey(key: string): Unexport {
  const [host = "", disk = "", session = ""] = key.split(" ");
  return { hostId: parseHostId(host), diskId: parseDiskId(disk), sessionNumber: Number(session) };
}

/** Ends exports that hosts serve though nobody wants them there. They are fenced off already; this only tidies up. */
export class UnexportWorker {
  constructor(private readonly context: WorkContext) {}

  async process(key: string, signal: AbortSignal): Promise<WorkResult> {
    const { tablet, agents, limits, fleet } = this.context;
    const leader = fleet.leader();
    const { hostId, diskId, sessionNumber } = parseKey(key);
    const host = await tablet.read((tables) => {
      const publication = tables.disks.get(diskId)?.publication;
      // Wanted there again under this number: the host may keep it.
      if (publication?.hostId === hostId && publication.sessionNumber <= sessionNumber) return undefined;
      return tables.hosts.get(hostId);
    });
    if (host === undefined) return "done";
    if (whyNotToldToLetGo(host) !== undefined) {
      // It says what it serves when it registers.
      await tablet.transact((tx) => requireRegistration(tx, [hostId]));
      return "done";
    }
    const request = { bootId: host.bootId, stamp: leaderStamp(leader), diskId, sessionNumber };
    const deadlineMs = limits.agentTimeoutMs;
    await agents.order(host, { leader, deadlineMs }, (client) => client.unexportDisk(request, { signal, deadlineMs }));
    return "done";
  }
}
