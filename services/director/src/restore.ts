import { runRestore } from "@diskmesh/tablet-admin";
import { directorConfig } from "./config/config.js";
import { storedSchema } from "./store/stored-schema.js";

await runRestore({
  configSchema: directorConfig,
  schema: storedSchema,
  notes: [
    "start the director; former directors of this tablet, and copies of them, must not run any more",
    "tasks that were under way are not run again: ListTasks shows them as held; ResumeTask runs one, CancelTask drops it",
  ],
});
