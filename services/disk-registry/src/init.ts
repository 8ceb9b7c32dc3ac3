import { runInit } from "@diskmesh/tablet-admin";
import { configSchema } from "./config/config.js";

await runInit(configSchema);
