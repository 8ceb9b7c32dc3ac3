import { messageOf, UnavailableError } from "@diskmesh/domain";
import { notePhase } from "../metrics/phases.js";
import { type Leader, whyNotToldToLetGo } from "../model/devices/orders.js";
import { noteEnded } from "../model/disks/copy-marks.js";
import { isFence } from "../model/disks/publications.js";
import { NO_RUNS, type SessionPlan } from "../model/disks/session-plan.js";
import { leaderStamp } from "../requests/wire.js";
import { runsOfTarget } from "./publication-steps.js";
import { grantedOf } from "./session-grant.js";
import type { WorkContext } from "./work-context.js";

/** A plan and the leader that stamps its orders. */
export type OrderedSession = SessionPlan & { readonly leader: Leader };

/** Devices that have granted the new session, or why the host may still serve the disk. */
type Ended = { readonly granted: ReadonlySet<string> } | { readonly error: Error };

/**
 * Asks the host to end its export. With `isFriendly` the host does so once nobody uses the disk, and opens the new session
 * on its devices in the same order.
 */
export async function endExport(
  { agents, tablet, limits, log, liveness, clock }: WorkContext,
  plan: OrderedSession,
  { isFriendly, signal }: { readonly isFriendly: boolean; readonly signal: AbortSignal },
): Promise<Ended> {
  const { disk, publication, target: host } = plan;
  if (host === undefined) return { granted: new Set() };
  const whyNot = whyNotToldToLetGo(host) ?? (isFence(disk) ? liveness.whySuspected(host.hostId) : undefined);
  if (whyNot !== undefined) return { error: new UnavailableError(whyNot) };
  const opened = isFriendly ? runsOfTarget(plan) : NO_RUNS;
  const request = {
    bootId: host.bootId,
    stamp: leaderStamp(plan.leader),
    diskId: disk.diskId,
    sessionNumber: publication.sessionNumber,
    openDeviceIds: [...opened.deviceIds],
    openRuns: [...opened.runs],
    drain: isFriendly,
  };
  try {
    const deadlineMs = limits.unexportTimeoutMs;
    const startedMs = clock.monotonicMs();
    const { outcomes, copied } = await agents.order(host, { leader: plan.leader, deadlineMs }, (client) =>
      client.unexportDisk(request, { signal, deadlineMs }),
    );
    notePhase("unpublish", "export", clock.monotonicMs() - startedMs);
    if (copied.length > 0) await tablet.transact((tx) => noteEnded(tx, disk.diskId, publication, copied));
    return { granted: grantedOf(opened, outcomes) };
  } catch (error) {
    log.info({ hostId: host.hostId, diskId: disk.diskId, error: messageOf(error) }, "unexport order failed");
    const message = `ending the export on host ${host.hostId}: ${messageOf(error)}`;
    return { error: new UnavailableError(message, { cause: error }) };
  }
}
