import { allEnded, metric, observe } from "@diskmesh/metrics";
import type { Device } from "./device.js";

/** Maximum devices that have their own metrics. */
const MAX_NAMED_DEVICES = 256;
const LABELS = { device_id: `the first ${MAX_NAMED_DEVICES} devices of the host, by id` };

/** Metrics of an agent's devices and memory. */
export const deviceMetrics = {
  inFlight: metric({
    kind: "gauge",
    name: "diskmesh.device.operations.in_flight",
    unit: "{operation}",
    description:
      "Reads, writes and flushes of the agent on a device that the operating system has not completed. The I/O of " +
      "storage daemons is not counted.",
    labels: LABELS,
  }),
  oldest: metric({
    kind: "gauge",
    name: "diskmesh.device.operations.oldest",
    unit: "s",
    description: "Duration of the oldest operation on a device, or of its open or close, that has not completed.",
    labels: LABELS,
  }),
  cacheFailing: metric({
    kind: "gauge",
    name: "diskmesh.agent.cache.failing",
    unit: "1",
    description: "1 while the agent cannot write its cache, and therefore obeys no orders; otherwise 0.",
  }),
};

/** Reports the metrics when they are read; returns a function that stops this. */
export function observeDevices(
  devices: { all(): readonly Pick<Device, "id" | "waiting">[] },
  ledger: { readonly problem: string | undefined },
): () => void {
  const named = () => devices.all().slice(0, MAX_NAMED_DEVICES);
  return allEnded([
    observe(deviceMetrics.inFlight, (say) => {
      for (const { id, waiting } of named()) say(waiting.inFlightOperations, { device_id: id });
    }),
    observe(deviceMetrics.oldest, (say) => {
      for (const { id, waiting } of named()) say(waiting.forMs / 1_000, { device_id: id });
    }),
    observe(deviceMetrics.cacheFailing, (say) => say(ledger.problem === undefined ? 0 : 1)),
  ]);
}
