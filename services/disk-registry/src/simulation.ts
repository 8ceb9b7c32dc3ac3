/** What a simulator puts a registry together from: everything but the process around it. */
export { RefusedAgents } from "./agents/refused-agents.js";
export { buildContext } from "./build-context.js";
export { configSchema } from "./config.js";
export type { Context } from "./context.js";
export { REGISTRY_LIMITS, type RegistryLimits } from "./limits.js";
export type { Device, Disk, Host } from "./model/schema.js";
export { addServices } from "./services.js";
export { storedSchema as schema } from "./stored-schema.js";
