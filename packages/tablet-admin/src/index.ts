export { addAdminService } from "./admin-service.js";
export { type ProcessReport, serviceCauses, serviceSummary } from "./explain-service.js";
export { explanation, MAX_CAUSES } from "./explanation.js";
export { observeTablet, tabletMetrics } from "./metrics.js";
export { openServiceTablet, storageOf } from "./open-tablet.js";
export { runInit } from "./run-init.js";
export { runRestore } from "./run-restore.js";
export { runStoreCheck } from "./run-store-check.js";
