export { type Clock, systemClock } from "@diskmesh/domain";
export { Changes, Watch } from "./changes.js";
export { ConfigError } from "./config/config-error.js";
export { variablesOf } from "./config/environment.js";
export { type ConfigKey, fileKey, keysOf } from "./config/keys.js";
export { checkConfig, loadConfig } from "./config/load.js";
export { pathConfig } from "./config/path.js";
export {
  addressesConfig,
  durationMsConfig,
  groupConfig,
  hostPortConfig,
  keyPairConfig,
  leaseTimes,
  listenConfig,
  natsConfig,
  privateFileConfig,
  reachableLeader,
  tabletConfig,
  tlsConfig,
} from "./config/pieces.js";
export { partlySecretConfig, pathText, secretConfig, withFacts } from "./config/schema.js";
export { serviceConfig } from "./config/service-config.js";
export { EitherSignal } from "./either-signal.js";
export { EXIT_CODES } from "./exit-codes.js";
export type { Term, Waiting } from "./leadership.js";
export { startLeadingService } from "./leading-service.js";
export { Lifecycle } from "./lifecycle.js";
export { LineLimit } from "./line-limit.js";
export { processMetrics } from "./process-metrics.js";
export { Readiness, type ReadinessReport } from "./readiness.js";
export { createRpcServer } from "./rpc-server.js";
export { runService } from "./run-service.js";
export { shownRequest } from "./shown-request.js";
export { Slots, slotsOfEach } from "./slots.js";
export { WorkQueue, type WorkResult } from "./work-queue.js";
