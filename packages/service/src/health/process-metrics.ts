import { monitorEventLoopDelay } from "node:perf_hooks";
import { allEnded, metric, observe } from "@diskmesh/metrics";
import type { Need, Readiness } from "./readiness.js";

const NEEDS: readonly Need[] = ["certificate", "leader", "database", "nats", "dispatcher", "registered"];

/** Metrics of every process. */
export const processMetrics = {
  cpuTime: metric({
    kind: "observed counter",
    name: "process.cpu.time",
    unit: "s",
    description: "Processor time that the process has used.",
    labels: { cpu_mode: ["user", "system"] },
  }),
  memoryUsage: metric({
    kind: "gauge",
    name: "process.memory.usage",
    unit: "By",
    description: "Memory of the process that is resident.",
  }),
  eventLoopDelay: metric({
    kind: "gauge",
    name: "nodejs.eventloop.delay",
    unit: "s",
    description:
      "How late the event loop was since it was asked last: the 99th percentile and the longest. Whatever the process " +
      "does waits so long.",
    labels: { quantile: ["0.99", "1"] },
  }),
  ready: metric({
    kind: "gauge",
    name: "diskmesh.ready",
    unit: "1",
    description: "1 while the process does all its work, 0 while it lacks something or stands by.",
  }),
  need: metric({
    kind: "gauge",
    name: "diskmesh.need",
    unit: "1",
    description:
      "1 while the process has what it needs, 0 while it lacks it. A standby tells of none that nobody looks at.",
    labels: { need: NEEDS },
  }),
  standsBy: metric({
    kind: "gauge",
    name: "diskmesh.standby",
    unit: "1",
    description: "1 while the process stands by for another one that leads.",
  }),
  certificateLeft: metric({
    kind: "gauge",
    name: "diskmesh.certificate.left",
    unit: "s",
    description: "How long the process's certificate is still valid.",
  }),
};

const LOOK_MS = 20;
const NANOSECONDS = 1e9;
const MICROSECONDS = 1e6;

/** Reports CPU, memory and event loop; returns a function that stops this. */
export function observeProcess(): () => void {
  const delay = monitorEventLoopDelay({ resolution: LOOK_MS });
  delay.enable();
  return allEnded([
    () => delay.disable(),
    observe(processMetrics.cpuTime, (say) => {
      const { user, system } = process.cpuUsage();
      say(user / MICROSECONDS, { cpu_mode: "user" });
      say(system / MICROSECONDS, { cpu_mode: "system" });
    }),
    observe(processMetrics.memoryUsage, (say) => say(process.memoryUsage.rss())),
    observe(processMetrics.eventLoopDelay, (say) => {
      // Node measures the time between two samples, so a loop without delay reports LOOK_MS.
      const late = (nanoseconds: number): number => Math.max(0, nanoseconds / NANOSECONDS - LOOK_MS / 1_000);
      say(late(delay.percentile(99)), { quantile: "0.99" });
      say(late(delay.max), { quantile: "1" });
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
