import type { JsonObject } from "../store/json.js";

/** Settings that agents do not get from the infrastructure (`mbus`, `ntp`, `blobstores`). */
export type AgentSettings = JsonObject;
