import { reachableLeader, runService } from "@diskmesh/service";
import * as z from "zod";
import { configSchema } from "../config/config.js";
import { REGISTRY_LIMITS, type RegistryLimits } from "../config/limits.js";
import { start } from "../start.js";

/** Registry process with limits from `tuning` in its config, for tests. */
const tuned = configSchema.extend({ tuning: z.custom<Partial<RegistryLimits>>().default({}) });

await runService("disk-registry", reachableLeader(tuned), (lifecycle, { tuning, ...config }, log) =>
  start(lifecycle, config, log, { ...REGISTRY_LIMITS, ...tuning }),
);
