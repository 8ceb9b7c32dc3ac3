import { runService } from "@diskmesh/service";
import * as z from "zod";
import { startAgent } from "../agent.js";
import { configSchema } from "../config.js";
import { AGENT_LIMITS, type AgentLimits } from "../limits.js";

/** The agent's process with limits of a test, which stand in its config under `tuning`. */
const tuned = configSchema.safeExtend({ tuning: z.custom<Partial<AgentLimits>>().default({}) });

await runService("disk-agent", tuned, (lifecycle, { tuning, ...config }, log) =>
  startAgent(lifecycle, config, log, { ...AGENT_LIMITS, ...tuning }),
);
