export * from "./event-log-contract.js";
export * from "./storage-contract.js";
