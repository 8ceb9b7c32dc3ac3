import { runService } from "@diskmesh/service";
import * as z from "zod";
import { startAgent } from "../agent.js";
import { configSchema } from "../base/config.js";
import { AGENT_LIMITS, type AgentLimits } from "../base/limits.js";

/** Agent process with limits from `tuning` in its config, for tests. */
const tuned = configSchema.safeExtend({ tuning: z.custom<Partial<AgentLimits>>().default({}) });

await runService("disk-agent", tuned, (lifecycle, { tuning, ...config }, log) =>
  startAgent(lifecycle, config, log, { ...AGENT_LIMITS, ...tuning }),
);
