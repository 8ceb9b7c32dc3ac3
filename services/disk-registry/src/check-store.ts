import { runStoreCheck } from "@diskmesh/tablet-admin";
import { configSchema } from "./config.js";
import { storedSchema } from "./stored-schema.js";

await runStoreCheck({ service: "disk-registry", configSchema, schema: storedSchema });
