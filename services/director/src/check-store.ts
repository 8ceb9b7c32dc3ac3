import { runStoreCheck } from "@diskmesh/tablet-admin";
import { directorConfig } from "./config/config.js";
import { storedSchema } from "./store/stored-schema.js";

await runStoreCheck({ configSchema: directorConfig, schema: storedSchema });
