export { type Clock, systemClock } from "@diskmesh/domain";
export { ConfigError } from "./config/config-error.js";
export { EXIT_CODES } from "./config/exit-codes.js";
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
export { AbruptEnds } from "./health/abrupt-ends.js";
export { type CsiDriverReport, CsiDrivers, REPORT_INTERVAL_MS } from "./health/csi-drivers.js";
export { processMetrics } from "./health/process-metrics.js";
export { Readiness, type ReadinessReport } from "./health/readiness.js";
export type { Term, Waiting } from "./serving/leadership.js";
export { startLeadingService } from "./serving/leading-service.js";
export { Lifecycle } from "./serving/lifecycle.js";
export { changedKeys } from "./serving/reload.js";
export { createRpcServer, reportReadiness } from "./serving/rpc-server.js";
export { runService } from "./serving/run-service.js";
export { shownRequest } from "./serving/shown-request.js";
export { Changes, Watch } from "./time/changes.js";
export { EitherSignal } from "./time/either-signal.js";
export { LineLimit } from "./time/line-limit.js";
export { Slots, slotsOfEach } from "./time/slots.js";
export { withinMs } from "./time/within-ms.js";
export { WorkQueue, type WorkResult } from "./time/work-queue.js";
