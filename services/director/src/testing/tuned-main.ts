import { reachableLeader, runService } from "@diskmesh/service";
import * as z from "zod";
import { directorConfig } from "../config/config.js";
import { DIRECTOR_LIMITS } from "../config/limits.js";
import { startDirector } from "../start.js";
import { changed, type Tuning } from "./tuning.js";

/** The director's process with limits of a test, which stand in its config under `tuning`. */
const tuned = directorConfig.safeExtend({ tuning: z.custom<Tuning>().default({}) });

await runService("director", reachableLeader(tuned), (lifecycle, { tuning, ...config }, log) =>
  startDirector(lifecycle, config, log, changed(DIRECTOR_LIMITS, tuning)),
);
