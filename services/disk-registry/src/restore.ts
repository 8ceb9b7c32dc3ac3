import { runRestore } from "@diskmesh/tablet-admin";
import { configSchema } from "./config/config.js";
import { storedSchema } from "./store/stored-schema.js";

await runRestore({
  configSchema,
  schema: storedSchema,
  notes: ["start the registry; former registries of this tablet, and copies of them, must not run any more"],
});
