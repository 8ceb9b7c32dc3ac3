import { runRebuild } from "./rebuild/run-rebuild.js";

await runRebuild();
