import { monitorEventLoopDelay } from "node:perf_hooks";
import { allEnded, metric, observe } from "@diskmesh/metrics";
import type { Need, Readiness } from "./readiness.js";

const NEEDS: readonly Need[] = ["certificate", "leader", "database", "nats", "dispatcher", "registered"];

/** Metrics of CPU, memory, event loop, readiness and certificate that every service exports. */
export const processMetrics = {
  cpuTime: metric({
    kind: "observed counter",
    name: "process.cpu.time",
    unit: "s",
    description: "CPU time used by the process, by mode.",
    labels: { "cpu.mode": ["user", "system"] },
  }),
  memoryUsage: metric({
    kind: "gauge",
    name: "process.memory.usage",
    unit: "By",
    description: "Resident memory of the process.",
  }),
  groupMemory: metric({
    kind: "gauge",
    name: "diskmesh.memory.group",
    unit: "By",
    description:
      "Memory of the process's control group, without file pages that the kernel can drop. Absent without a limit.",
  }),
  groupMemoryLimit: metric({
    kind: "gauge",
    name: "diskmesh.memory.limit",
    unit: "By",
    description: "Limit of the memory of the process's control group. Absent without a limit.",
  }),
  eventLoopDelayP99: metric({
    kind: "gauge",
    name: "nodejs.eventloop.delay.p99",
    unit: "s",
    description:
      "99th percentile of the event loop's delay since the last scrape. Every call in the process waits this long.",
  }),
  eventLoopDelayMax: metric({
    kind: "gauge",
    name: "nodejs.eventloop.delay.max",
    unit: "s",
    description: "Maximum delay of the event loop since the last scrape.",
  }),
  ready: metric({
    kind: "gauge",
    name: "diskmesh.ready",
    unit: "1",
    description:
      "1 while the process serves with all its dependencies; 0 while a dependency is missing or the process is a " +
      "standby.",
  }),
  need: metric({
    kind: "gauge",
    name: "diskmesh.need",
    unit: "1",
    description:
      "1 while the dependency is available, 0 while it is missing. A standby omits dependencies that it does not " +
      "check.",
    labels: { need: NEEDS },
  }),
  standsBy: metric({
    kind: "gauge",
    name: "diskmesh.standby",
    unit: "1",
    description: "1 while the process is the standby of another leader, else 0.",
  }),
  certificateLeft: metric({
    kind: "gauge",
    name: "diskmesh.certificate.left",
    unit: "s",
    description: "Time until the process's TLS certificate expires.",
  }),
};

const SAMPLE_INTERVAL_MS = 20;
const NANOSECONDS = 1e9;
const MICROSECONDS = 1e6;

/** Reports CPU, memory and event loop; returns a function that stops this. */
export function observeProcess(): () => void {
  const delay = monitorEventLoopDelay({ resolution: SAMPLE_INTERVAL_MS });
  delay.enable();
  // Node measures the time between two samples, so a loop without delay reports SAMPLE_INTERVAL_MS.
  const late = (nanoseconds: number): number => Math.max(0, nanoseconds / NANOSECONDS - SAMPLE_INTERVAL_MS / 1_000);
  return allEnded([
    () => delay.disable(),
    observe(processMetrics.cpuTime, (say) => {
      const { user, system } = process.cpuUsage();
      say(user / MICROSECONDS, { "cpu.mode": "user" });
      say(system / MICROSECONDS, { "cpu.mode": "system" });
    }),
    observe(processMetrics.memoryUsage, (say) => say(process.memoryUsage.rss())),
    observe(processMetrics.eventLoopDelayP99, (say) => say(late(delay.percentile(99)))),
    // Observed last: the next scrape starts anew.
    observe(processMetrics.eventLoopDelayMax, (say) => {
      say(late(delay.max));
      delay.reset();
    }),
  ]);
}

/** Reports whether the process is ready, and the missing needs; returns a function that stops this. */
export function observeReadiness(readiness: Pick<Readiness, "report">): () => void {
  return allEnded([
    observe(processMetrics.ready, (say) => say(Number(readiness.report().ready))),
    observe(processMetrics.standsBy, (say) => say(Number(readiness.report().standsByFor !== undefined))),
    observe(processMetrics.need, (say) => {
      for (const [need, { met }] of readiness.report().needs) if (met !== undefined) say(Number(met), { need });
    }),
  ]);
}
