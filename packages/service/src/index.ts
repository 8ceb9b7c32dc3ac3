export { type Clock, ManualClock, systemClock } from "./clock.js";
export {
  ConfigError,
  durationMsConfig,
  LOG_LEVELS,
  type LogLevel,
  listenConfig,
  loadConfig,
  pathConfig,
  rpcLimitsConfig,
  type ServiceConfig,
  serviceConfig,
  tlsConfig,
} from "./config.js";
export { Lifecycle, type Stoppable } from "./lifecycle.js";
export { createLogger, type Logger, type LoggerOptions, rpcFailureLogger } from "./log.js";
export { runService, type StartService } from "./run-service.js";
export { startTelemetry, type Telemetry } from "./telemetry.js";
export { type WorkFailure, WorkQueue, type WorkQueueOptions, type WorkResult } from "./work-queue.js";
