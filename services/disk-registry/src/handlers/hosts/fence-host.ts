import type { FencedDisk, FenceHostRequest, FenceHostResponse } from "@diskmesh/api/registry";
import { type DiskId, type HostId, parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../../calls/context.js";
import { transactUnlessDry } from "../../calls/run-action.js";
import { answerInMs } from "../../calls/wait-for-publication.js";
import { type FenceProgress, fenceHost as fence, fenceProgress } from "../../model/disks/fences.js";
import { parseReason, saidBy } from "../../requests/requests.js";

/** Maximum devices named in one answer, because a host may hold thousands of disks. */
const MAX_NAMED_DEVICES = 1_000;

export async function fenceHost(
  context: ChangeContext,
  request: FenceHostRequest,
  call: CallContext,
): Promise<FenceHostResponse> {
  const { tablet, limits, clock, log, workers, doing } = context;
  const hostId = parseHostId(request.hostId);
  const reason = parseReason(request.reason, limits.maxTextLength);
  doing.message = reason;
  const word = { by: saidBy(call), atMs: clock.nowMs(), reason };
  const diskIds = await transactUnlessDry(tablet, request.dryRun, (tx) => fence(tx, hostId, word));
  if (request.dryRun) return { disks: diskIds.map((diskId) => notYet(diskId)) };
  log.warn({ hostId, by: word.by, reason, disks: diskIds.length }, "host fenced by an operator");
  workers.wakeFences(diskIds);
  const untilMs = clock.monotonicMs() + answerInMs(context, call);
  for (const diskId of diskIds) await untilTried(context, call, { diskId, hostId }, untilMs);
  const progress = await tablet.read((tables) =>
    diskIds.map((diskId) => fenceProgress(tables, diskId, hostId, workers.answersOf(diskId))),
  );
  return { disks: answerOf(progress) };
}

/** Waits until the fence is complete, or until an agent has refused the session or cannot be reached. */
async function untilTried(
  { diskChanges, tablet, clock }: ChangeContext,
  call: CallContext,
  { diskId, hostId }: { readonly diskId: DiskId; readonly hostId: HostId },
  untilMs: number,
): Promise<void> {
  const isTried = () =>
    tablet.read((tables) => {
      const publication = tables.disks.get(diskId)?.publication;
      const isUnderWay = publication?.hostId === hostId && publication.state === "UNPUBLISHING";
      return !isUnderWay || publication.attempts > 0 ? true : undefined;
    });
  const timeoutMs = Math.max(0, untilMs - clock.monotonicMs());
  await diskChanges.until(diskId, isTried, { timeoutMs, clock, signal: call.signal });
}

const notYet = (diskId: DiskId): FencedDisk => ({
  diskId,
  complete: false,
  unaskedDeviceCount: 0,
  unaskedDevices: [],
});

function answerOf(progress: readonly FenceProgress[]): FencedDisk[] {
  let left = MAX_NAMED_DEVICES;
  return progress.map(({ diskId, complete, unaskedDevices }) => {
    const named = unaskedDevices.slice(0, left).map((device) => ({ ...device }));
    left -= named.length;
    return { diskId, complete, unaskedDeviceCount: unaskedDevices.length, unaskedDevices: named };
  });
}
