import { DURATION_BUCKETS_SECONDS, histogramOf, metric } from "@diskmesh/metrics";
import { TASK_QUEUES } from "../store/task.js";

/** Tasks take between milliseconds and hours. */
const TASK_BUCKETS_SECONDS = [...DURATION_BUCKETS_SECONDS, 300, 900, 3_600];
export const LIVE_STATES = ["queued", "processing", "cancelling", "held"] as const;
const PROVIDE_PHASES = ["queue", "create", "attach", "set_metadata", "tell_agent", "total"] as const;

/** The metrics of a leading director; a standby reports none of them. */
export const directorMetrics = {
  tasks: metric({
    kind: "gauge",
    name: "diskmesh.tasks",
    unit: "{task}",
    description: "Tasks that have not ended, by queue and state.",
    labels: { queue: TASK_QUEUES, state: LIVE_STATES },
  }),
  oldestTask: metric({
    kind: "gauge",
    name: "diskmesh.tasks.oldest",
    unit: "s",
    description: "Age of the oldest task that has not ended, by queue; 0: there is none.",
    labels: { queue: TASK_QUEUES },
  }),
  taskDuration: metric({
    kind: "histogram",
    name: "diskmesh.task.duration",
    unit: "s",
    description: "Tasks that have ended, from their request to their end, by queue and how they ended.",
    labels: { queue: TASK_QUEUES, state: ["done", "error", "cancelled", "timeout"] },
    buckets: TASK_BUCKETS_SECONDS,
  }),
  providePhase: metric({
    kind: "histogram",
    name: "diskmesh.provide.phase.duration",
    unit: "s",
    description:
      "How long each phase of providing a dynamic disk took: queue, until a worker and its locks were there; what CPI and " +
      "agent were asked; total, the whole.",
    labels: { phase: PROVIDE_PHASES },
    buckets: TASK_BUCKETS_SECONDS,
  }),
  locks: metric({
    kind: "gauge",
    name: "diskmesh.locks",
    unit: "{lock}",
    description: "Locks that are held.",
  }),
  lockWaiters: metric({
    kind: "gauge",
    name: "diskmesh.locks.waiting",
    unit: "{task}",
    description: "Tasks and calls that wait for a lock that another one holds.",
  }),
  lockWait: metric({
    kind: "histogram",
    name: "diskmesh.lock.wait.duration",
    unit: "s",
    description: "How long tasks waited for a lock, of those that had to wait, by queue.",
    labels: { queue: TASK_QUEUES },
    buckets: TASK_BUCKETS_SECONDS,
  }),
  owedRemovals: metric({
    kind: "gauge",
    name: "diskmesh.removals.owed",
    unit: "{removal}",
    description: "Removals of disks that agents could not be told of yet: their VMs are given no other disk before.",
  }),
  agentCertificatesEnding: metric({
    kind: "gauge",
    name: "diskmesh.agent_certificates.ending",
    unit: "{certificate}",
    description:
      "Certificates of VMs' agents that were not renewed in time: no more than a ninth of their life is left, or they have " +
      "ended. Each should have been renewed when a third was over.",
  }),
  agentCertificatesLeft: metric({
    kind: "gauge",
    name: "diskmesh.agent_certificates.left",
    unit: "s",
    description:
      "How long it is until the first certificate of a VM's agent ends, and below 0 since one has ended; absent where " +
      "there is none.",
  }),
  possibleOrphans: metric({
    kind: "gauge",
    name: "diskmesh.orphans.possible",
    unit: "{orphan}",
    description: "Disks and VMs that a CPI may have made without anybody knowing.",
  }),
};

/** Records the duration of a phase of a provide. */
export function notePhase(
  phase: "queue" | "create" | "attach" | "set_metadata" | "tell_agent" | "total",
  durationMs: number,
): void {
  histogramOf(directorMetrics.providePhase).record(Math.max(0, durationMs) / 1_000, { phase });
}
