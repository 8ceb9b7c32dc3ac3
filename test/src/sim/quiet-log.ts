import { createLogger } from "@diskmesh/service";

/** The services' own log lines would tell the same story twice. */
export const quietLog = createLogger({ service: "simulation", level: "silent" });
