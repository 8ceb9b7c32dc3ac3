import { runService } from "@diskmesh/service";
import { startAgent } from "./agent.js";
import { configSchema } from "./config.js";

await runService("disk-agent", configSchema, startAgent);
