import type { Disk as DiskMessage } from "@diskmesh/api/registry";
import { type DiskId, TimeoutError, UnavailableError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { PublicationStep } from "../model/disks/publications.js";
import type { Disk, RegistryTables } from "../model/store/schema.js";
import type { ChangeContext } from "./context.js";
import { describeChangedDisk } from "./device-description.js";

/**
 * Waits until the disk has reached the requested state, and returns the disk as it was then. Shortly before the
 * deadline, throws an error that names the progress.
 */
export async function waitForPublication(
  context: ChangeContext,
  call: CallContext,
  diskId: DiskId,
  progress: (tables: RegistryTables) => PublicationStep,
): Promise<DiskMessage> {
  const { diskChanges, tablet, clock } = context;
  const find = () =>
    tablet.read((tables) => {
      const step = progress(tables);
      return step.progress === "reached" ? describeChangedDisk(context, tables, step.disk) : undefined;
    });
  const timeoutMs = answerInMs(context, call);
  const reached = await diskChanges.until(diskId, find, { timeoutMs, clock, signal: call.signal });
  if (reached === undefined) throw await notYet(context, diskId);
  return reached;
}

/** Returns how long the call may wait before it reports progress. */
export function answerInMs({ limits, clock }: ChangeContext, call: CallContext): number {
  const leftMs = call.deadlineAtMs - clock.nowMs();
  return Math.max(0, leftMs - Math.min(limits.answerMarginMs, leftMs / 2));
}

async function notYet({ tablet, limits }: ChangeContext, diskId: DiskId): Promise<Error> {
  const disk = await tablet.read((tables) => tables.disks.get(diskId));
  const about = { disk_id: diskId };
  const { publication } = disk ?? ({} as Partial<Disk>);
  const goesOn = "the registry continues; repeat the call to wait longer";
  if (publication === undefined)
    return new TimeoutError(`disk ${diskId} changed while the call waited for it; repeat the call`, { about });
  const { state, hostId, sessionNumber } = publication;
  const what = state === "PUBLISHED" ? "not yet served with its present limits and size" : `still ${state}`;
  const where = `disk ${diskId} is ${what} (host ${hostId}, session ${sessionNumber})`;
  if (publication.lastError === "") return new TimeoutError(`${where}; ${goesOn}`, { about });
  const details = { about, retryAfterMs: limits.closingRetryAfterMs, outcome: "unknown" } as const;
  return new UnavailableError(
    `${where}, after ${publication.attempts} tries: ${publication.lastError}; ${goesOn}`,
    details,
  );
}
