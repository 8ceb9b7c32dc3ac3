import type { JsonObject } from "../store/json.js";

/** What agents need to know that the infrastructure cannot tell them (`mbus`, `ntp`, `blobstores`). */
export type AgentSettings = JsonObject;
