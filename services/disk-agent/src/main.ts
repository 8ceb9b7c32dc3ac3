import { runService } from "@diskmesh/service";
import { startAgent } from "./agent.js";
import { configSchema } from "./config.js";
import { endSessions } from "./end-sessions.js";
import { compareWithRunning } from "./running-config.js";
import { printStatus } from "./status.js";

await runService("disk-agent", configSchema, startAgent, {
  compareWithRunning,
  actions: {
    "end-sessions": {
      help: "ends the storage daemons that a stopped agent has left, so that no process uses its devices, and exits",
      run: endSessions,
    },
    status: {
      help: "prints devices, sessions, exports and sockets from the host's files, without a registry, and exits",
      run: printStatus,
    },
  },
});
