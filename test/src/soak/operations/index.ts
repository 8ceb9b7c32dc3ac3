import type { Operation } from "../soak.js";
import { configs } from "./configs.js";
import { deployments } from "./deployments.js";
import { disks } from "./disks.js";
import { dynamicDisks } from "./dynamic-disks.js";
import { reads } from "./reads.js";
import { tasks } from "./tasks.js";

export { cms } from "./cms.js";
export { repairDevices, repairs } from "./repairs.js";

/** All operations of callers, except those of infrastructure automation. */
export const OPERATIONS: readonly Operation[] = [disks, dynamicDisks, deployments, configs, tasks, reads];
