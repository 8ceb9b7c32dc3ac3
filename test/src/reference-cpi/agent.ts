import { runAgent } from "@diskmesh/process-cpi/agent";
import { told } from "../secrets/canaries.js";

/** Agent of a VM of the reference CPI. Its errors contain secrets of hints, so that tests can find leaks. */
await runAgent(process.argv[2] ?? "", { describeHint: (hint) => told([hint]) });
