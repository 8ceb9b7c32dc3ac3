import { reachableLeader, runService } from "@diskmesh/service";
import { configSchema } from "./config/config.js";
import { start } from "./start.js";

await runService("disk-registry", reachableLeader(configSchema), start);
