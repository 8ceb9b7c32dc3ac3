import { reachableLeader, runService } from "@diskmesh/service";
import * as z from "zod";
import { configSchema } from "../config/config.js";
import { REGISTRY_LIMITS, type RegistryLimits } from "../config/limits.js";
import { start } from "../start.js";

/** The registry's process with limits of a test, which stand in its config under `tuning`. */
const tuned = configSchema.extend({ tuning: z.custom<Partial<RegistryLimits>>().default({}) });

await runService("disk-registry", reachableLeader(tuned), (lifecycle, { tuning, ...config }, log) =>
  start(lifecycle, config, log, { ...REGISTRY_LIMITS, ...tuning }),
);
