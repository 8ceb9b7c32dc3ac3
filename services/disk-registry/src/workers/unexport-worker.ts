import { type DiskId, type HostId, parseDiskId, parseHostId } from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import { whyNotToldToLetGo } from "../model/devices/orders.js";
import { requireRegistration } from "../model/disks/remembered.js";
import { leaderStamp } from "../requests/wire.js";
import type { WorkContext } from "./work-context.js";

/** Ends every export of the disk on this host with this session number or a lower one. */
export interface Unexport {
  readonly hostId: HostId;
  readonly diskId: DiskId;
  readonly sessionNumber: number;
}

// A space separates the parts, because ids contain none.
export const unexportKey = ({ hostId, diskId, sessionNumber }: Unexport): string =>
  `${hostId} ${diskId} ${sessionNumber}`;

function parseKey(key: string): Unexport {
  const [host = "", disk = "", session = ""] = key.split(" ");
  return { hostId: parseHostId(host), diskId: parseDiskId(disk), sessionNumber: Number(session) };
}

/** Ends unwanted exports on hosts. The devices have fenced these exports off already, so this only frees resources. */
export class UnexportWorker {
  constructor(private readonly context: WorkContext) {}

  async process(key: string, signal: AbortSignal): Promise<WorkResult> {
    const { tablet, agents, limits, fleet } = this.context;
    const leader = fleet.leader();
    const { hostId, diskId, sessionNumber } = parseKey(key);
    const host = await tablet.read((tables) => {
      const publication = tables.disks.get(diskId)?.publication;
      // Sends no request that would also end the disk's current publication to this host.
      if (publication?.hostId === hostId && publication.sessionNumber <= sessionNumber) return undefined;
      return tables.hosts.get(hostId);
    });
    if (host === undefined) return "done";
    if (whyNotToldToLetGo(host) !== undefined) {
      // Makes the host register again. Its registration reports its exports, and the registry then ends the unwanted
      // ones.
      await tablet.transact((tx) => requireRegistration(tx, [hostId]));
      return "done";
    }
    const request = { bootId: host.bootId, stamp: leaderStamp(leader), diskId, sessionNumber };
    const deadlineMs = limits.agentTimeoutMs;
    await agents.order(host, { leader, deadlineMs }, (client) => client.unexportDisk(request, { signal, deadlineMs }));
    return "done";
  }
}
