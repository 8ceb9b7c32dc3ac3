import { policyTable } from "./policy.js";

process.stdout.write(`${policyTable()}\n`);
