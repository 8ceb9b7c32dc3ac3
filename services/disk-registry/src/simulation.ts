/** Parts for a simulator that runs a registry without a process, and for benches of its model. */
export { RefusedAgents } from "./agents/refused-agents.js";
export { buildContext } from "./build-context.js";
export type { Context } from "./calls/context.js";
export { configSchema } from "./config/config.js";
export { REGISTRY_LIMITS, type RegistryLimits } from "./config/limits.js";
export { allocate } from "./model/disks/allocation.js";
export { addHost } from "./model/hosts/add-action.js";
export { registerAgent } from "./model/hosts/registration.js";
export { countingDevices } from "./model/store/layout.js";
export { diskOn, disksOn, eraseSessionOf, holds, holdsAnyDisk, isDirty, runAt } from "./model/store/runs.js";
export type { Device, Disk, DiskRequest, Host } from "./model/store/schema.js";
export { bytesOf, partOffsetBytes, spacesOf } from "./model/store/slices.js";
export { addServices } from "./services.js";
export { storedSchema as schema } from "./store/stored-schema.js";
