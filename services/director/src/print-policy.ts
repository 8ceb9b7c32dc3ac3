import { policyTable } from "./config/policy.js";

process.stdout.write(`${policyTable()}\n`);
