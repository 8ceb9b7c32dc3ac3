export * from "./generated/google/rpc/error_details.js";
export * from "./generated/google/rpc/status.js";
