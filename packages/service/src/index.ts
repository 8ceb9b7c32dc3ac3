export { Changes, Watch } from "./changes.js";
export { type Clock, ManualClock, systemClock } from "./clock.js";
export {
  addressesConfig,
  ConfigError,
  durationMsConfig,
  hostPortConfig,
  listenConfig,
  loadConfig,
  natsConfig,
  pagingConfig,
  pathConfig,
  reachableLeader,
  rpcLimitsConfig,
  serviceConfig,
  tabletConfig,
  tlsConfig,
} from "./config.js";
export { EitherSignal } from "./either-signal.js";
export type { Term, Waiting } from "./leadership.js";
export { startLeadingService } from "./leading-service.js";
export { Lifecycle } from "./lifecycle.js";
export { processMetrics } from "./process-metrics.js";
export { Readiness } from "./readiness.js";
export { createRpcServer } from "./rpc-server.js";
export { runService } from "./run-service.js";
export { Slots } from "./slots.js";
export { WorkQueue, type WorkResult } from "./work-queue.js";
