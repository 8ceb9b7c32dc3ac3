export { deviceMetrics } from "./devices/device-metrics.js";
export { nbdMetrics } from "./nbd/io-counters.js";
