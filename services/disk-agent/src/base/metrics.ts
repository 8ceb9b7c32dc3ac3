import { DURATION_BUCKETS_SECONDS, metric } from "@diskmesh/metrics";

export { nbdMetrics } from "./io-counters.js";

/** Maximum devices that have their own metrics. */
export const MAX_NAMED_DEVICES = 256;
/** System calls of the agent on a device. A clear writes zeros, or punches a hole. */
export const DEVICE_OPERATIONS = ["read", "write", "clear", "flush"] as const;
export type DeviceOperation = (typeof DEVICE_OPERATIONS)[number];

const DEVICE_LABEL = { device_id: `the first ${MAX_NAMED_DEVICES} devices of the host, by id` };
const OPERATION_LABELS = { ...DEVICE_LABEL, operation: DEVICE_OPERATIONS };
const OF_THE_AGENT = "Operations of the agent itself: I/O of engine `node`, probes and erases.";

/** Metrics of an agent's devices. */
export const deviceMetrics = {
  operations: metric({
    kind: "observed counter",
    name: "diskmesh.device.operations",
    unit: "{operation}",
    description: `Operations that the operating system has completed on a device, including failed ones. ${OF_THE_AGENT}`,
    labels: OPERATION_LABELS,
  }),
  errors: metric({
    kind: "observed counter",
    name: "diskmesh.device.errors",
    unit: "{operation}",
    description: "Operations on a device that the operating system has failed.",
    labels: OPERATION_LABELS,
  }),
  time: metric({
    kind: "observed counter",
    name: "diskmesh.device.operation.time",
    unit: "s",
    description:
      "Total duration of the operations on a device. The mean latency is this value divided by the number of operations.",
    labels: OPERATION_LABELS,
  }),
  inFlight: metric({
    kind: "gauge",
    name: "diskmesh.device.operations.in_flight",
    unit: "{operation}",
    description: "Reads, writes and flushes of the agent on a device that the operating system has not completed.",
    labels: DEVICE_LABEL,
  }),
  oldest: metric({
    kind: "gauge",
    name: "diskmesh.device.operations.oldest",
    unit: "s",
    description:
      "Duration of the oldest operation on a device, or of its open or close, that has not completed. The agent's own " +
      "probe shows a device that hangs while the kernel carries its disks.",
    labels: DEVICE_LABEL,
  }),
};

/** Metrics of an agent's orders and of its own state. */
export const agentMetrics = {
  fences: metric({
    kind: "histogram",
    name: "diskmesh.session.open.duration",
    unit: "s",
    description:
      "Time from an order to open a session on a device, which fences all earlier sessions, until the agent's answer: " +
      "granted; pending (I/O of earlier sessions has not ended, and the registry sends the order again); refused.",
    labels: { purpose: ["disk", "fence", "erase", "label"], outcome: ["granted", "pending", "refused"] },
    buckets: DURATION_BUCKETS_SECONDS,
  }),
  fencesWaiting: metric({
    kind: "gauge",
    name: "diskmesh.fences.waiting",
    unit: "{device}",
    description: "Number of devices on which I/O of a fenced session has not ended.",
  }),
  fencesOldest: metric({
    kind: "gauge",
    name: "diskmesh.fences.oldest",
    unit: "s",
    description: "Age of the oldest I/O of a fenced session; 0 if there is none.",
  }),
  erasesRunning: metric({
    kind: "gauge",
    name: "diskmesh.erases.running",
    unit: "{erase}",
    description: "Number of devices that are being erased, including those that wait for another erase.",
  }),
  erases: metric({
    kind: "counter",
    name: "diskmesh.erases",
    unit: "{erase}",
    description: "Ended erases: done; outdated (a later session of the device has begun); failed.",
    labels: { outcome: ["done", "outdated", "failed"] },
  }),
  erased: metric({
    kind: "counter",
    name: "diskmesh.erase.io",
    unit: "By",
    description: "Bytes that erases have overwritten.",
  }),
  cacheWrites: metric({
    kind: "histogram",
    name: "diskmesh.agent.cache.write.duration",
    unit: "s",
    description: "Duration of writes of the agent's cache, for which every order waits.",
    labels: { outcome: ["done", "failed"] },
    buckets: DURATION_BUCKETS_SECONDS,
  }),
  cacheFailing: metric({
    kind: "gauge",
    name: "diskmesh.agent.cache.failing",
    unit: "1",
    description: "1 while the agent cannot write its cache, and therefore obeys no orders; otherwise 0.",
  }),
  registrationAge: metric({
    kind: "gauge",
    name: "diskmesh.agent.registration.age",
    unit: "s",
    description:
      "Time since the registry last accepted the agent's registration or a heartbeat; absent before the first one.",
  }),
};
