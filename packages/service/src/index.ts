export { Changes, Watch } from "./changes.js";
export { type Clock, ManualClock, systemClock } from "./clock.js";
export {
  addressesConfig,
  ConfigError,
  durationMsConfig,
  hostPortConfig,
  LOG_LEVELS,
  type LogLevel,
  listenConfig,
  loadConfig,
  pathConfig,
  reachableLeader,
  rpcLimitsConfig,
  type ServiceConfig,
  serviceConfig,
  tabletConfig,
  tlsConfig,
} from "./config.js";
export type { Term, Waiting } from "./leadership.js";
export { startLeadingService } from "./leading-service.js";
export { Lifecycle, type Stoppable } from "./lifecycle.js";
export { createLogger, type LoggerOptions } from "./log.js";
export { createRpcServer } from "./rpc-server.js";
export { runService, type StartService } from "./run-service.js";
export { startTelemetry, type Telemetry } from "./telemetry.js";
export { type WorkFailure, WorkQueue, type WorkQueueOptions, type WorkResult } from "./work-queue.js";
