import { runInit } from "@diskmesh/tablet-admin";
import { directorConfig } from "./config/config.js";

await runInit(directorConfig);
