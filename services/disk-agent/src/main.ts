import { runService } from "@diskmesh/service";
import { startAgent } from "./agent.js";
import { configSchema } from "./base/config.js";
import { hostWarnings } from "./commands/check-host.js";
import { printDriveRules } from "./commands/drive-rules.js";
import { endSessions } from "./commands/end-sessions.js";
import { JOIN_HELP, runJoin } from "./commands/join-command.js";
import { printStatus } from "./commands/status.js";
import { describeEngine } from "./exports/choose-engine.js";
import { joinIfNew } from "./joins/join.js";
import { keepRenewed } from "./joins/renewal.js";
import { compareWithRunning } from "./running-config.js";

await runService(
  "disk-agent",
  configSchema,
  async (lifecycle, config, log) => {
    await joinIfNew(config, log);
    const applyReload = await startAgent(lifecycle, config, log);
    keepRenewed(lifecycle, config, log);
    return applyReload;
  },
  {
    compareWithRunning: async (config) => [await describeEngine(config), ...(await compareWithRunning(config))],
    warnOfHost: hostWarnings,
    commands: { join: { help: JOIN_HELP, run: runJoin } },
    actions: {
      "end-sessions": {
        help: "ends what a stopped agent has left to carry disks, so that nothing uses its devices, and exits",
        run: endSessions,
      },
      "drive-rules": {
        help: "prints udev rules that keep other programs of the host off the drives of the config, and exits",
        run: printDriveRules,
      },
      status: {
        help: "prints devices, sessions, exports and sockets from the host's files, without a registry, and exits",
        run: printStatus,
      },
    },
  },
);
