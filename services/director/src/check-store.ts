import { runStoreCheck } from "@diskmesh/tablet-admin";
import { directorConfig } from "./config.js";
import { storedSchema } from "./stored-schema.js";

await runStoreCheck({ service: "director", configSchema: directorConfig, schema: storedSchema });
