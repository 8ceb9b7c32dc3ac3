import type { JsonObject } from "../store/json.js";

/** Settings that the infrastructure cannot tell agents (`mbus`, `ntp`, `blobstores`). */
export type AgentSettings = JsonObject;
