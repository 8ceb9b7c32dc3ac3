import { reachableLeader, runService } from "@diskmesh/service";
import * as z from "zod";
import { directorConfig } from "../config/config.js";
import { DIRECTOR_LIMITS } from "../config/limits.js";
import { startDirector } from "../start.js";
import { changed, type Tuning } from "./tuning.js";

/** Runs the director with a test's limits, which the config contains under `tuning`. */
const tuned = directorConfig.safeExtend({ tuning: z.custom<Tuning>().default({}) });

await runService("director", reachableLeader(tuned), (lifecycle, { tuning, ...config }, log) =>
  startDirector(lifecycle, config, log, changed(DIRECTOR_LIMITS, tuning)),
);
