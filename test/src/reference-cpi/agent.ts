import { runAgent } from "@diskmesh/process-cpi/agent";
import { told } from "../secrets/canaries.js";

/** The agent of a VM of the reference CPI. It keeps no secret. */
await runAgent(process.argv[2] ?? "", { describeHint: (hint) => told([hint]) });
