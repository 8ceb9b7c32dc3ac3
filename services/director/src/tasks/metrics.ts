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
    description: "Number of unfinished tasks, by queue and state.",
    labels: { queue: TASK_QUEUES, state: LIVE_STATES },
  }),
  oldestTask: metric({
    kind: "gauge",
    name: "diskmesh.tasks.oldest",
    unit: "s",
    description: "Age of the oldest unfinished task, by queue; 0 if there is none.",
    labels: { queue: TASK_QUEUES },
  }),
  taskDuration: metric({
    kind: "histogram",
    name: "diskmesh.task.duration",
    unit: "s",
    description: "Duration of tasks from their request to their end, by queue and final state.",
    labels: { queue: TASK_QUEUES, state: ["done", "error", "cancelled", "timeout"] },
    buckets: TASK_BUCKETS_SECONDS,
  }),
  providePhase: metric({
    kind: "histogram",
    name: "diskmesh.provide.phase.duration",
    unit: "s",
    description:
      "Duration of each phase of providing a dynamic disk: `queue` until a worker and the locks are available; " +
      "`create`, `attach` and `set_metadata` in the CPI; `tell_agent` in the agent; `total` for the whole " +
      "operation.",
    labels: { phase: PROVIDE_PHASES },
    buckets: TASK_BUCKETS_SECONDS,
  }),
  locks: metric({
    kind: "gauge",
    name: "diskmesh.locks",
    unit: "{lock}",
    description: "Number of held locks.",
  }),
  lockWaiters: metric({
    kind: "gauge",
    name: "diskmesh.locks.waiting",
    unit: "{task}",
    description: "Number of tasks and calls that wait for a held lock.",
  }),
  lockWait: metric({
    kind: "histogram",
    name: "diskmesh.lock.wait.duration",
    unit: "s",
    description: "Time that tasks waited for a lock, by queue. Locks taken without a wait are not recorded.",
    labels: { queue: TASK_QUEUES },
    buckets: TASK_BUCKETS_SECONDS,
  }),
  owedRemovals: metric({
    kind: "gauge",
    name: "diskmesh.removals.owed",
    unit: "{removal}",
    description:
      "Pending detach notifications: detached disks whose removal the agent has not yet received. Its VM gets no " +
      "other disk until then.",
  }),
  agentCertificatesEnding: metric({
    kind: "gauge",
    name: "diskmesh.agent_certificates.ending",
    unit: "{certificate}",
    description:
      "Certificates of VM agents overdue for renewal: expired, or with at most a ninth of their lifetime left. " +
      "Renewal is due after a third of the lifetime.",
  }),
  agentCertificatesLeft: metric({
    kind: "gauge",
    name: "diskmesh.agent_certificates.left",
    unit: "s",
    description:
      "Time until the first certificate of a VM agent expires; negative once expired, absent without certificates.",
  }),
  possibleOrphans: metric({
    kind: "gauge",
    name: "diskmesh.orphans.possible",
    unit: "{orphan}",
    description: "Number of disks and VMs that a CPI may have created without diskmesh knowing their ids.",
  }),
};

/** Records the duration of a phase of a provide_dynamic_disk task. */
export function notePhase(
  phase: "queue" | "create" | "attach" | "set_metadata" | "tell_agent" | "total",
  durationMs: number,
): void {
  histogramOf(directorMetrics.providePhase).record(Math.max(0, durationMs) / 1_000, { phase });
}
