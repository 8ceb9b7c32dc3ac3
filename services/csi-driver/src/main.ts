import { runService } from "@diskmesh/service";
import { csiConfig } from "./config.js";
import { modesIn, startDriver } from "./start.js";

const { modes, others } = modesIn(process.argv.slice(2));
process.argv.splice(2, Number.POSITIVE_INFINITY, ...others);

await runService("csi-driver", csiConfig, (lifecycle, config, log) => startDriver(lifecycle, config, log, modes));
