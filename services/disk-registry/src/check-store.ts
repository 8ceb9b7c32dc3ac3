import { runStoreCheck } from "@diskmesh/tablet-admin";
import { configSchema } from "./config/config.js";
import { storedSchema } from "./store/stored-schema.js";

await runStoreCheck({ configSchema, schema: storedSchema });
