import { reachableLeader, runService } from "@diskmesh/service";
import { directorConfig } from "./config/config.js";
import { startDirector } from "./start.js";

await runService("director", reachableLeader(directorConfig), startDirector);
