import { runService } from "@diskmesh/service";
import { dispatcherConfig } from "./config/config.js";
import { startDispatcher } from "./start.js";

await runService("cpi-dispatcher", dispatcherConfig, startDispatcher);
