export * from "./bosh-registry.js";
export * from "./cid.js";
export * from "./cpi.js";
export * from "./cpi-names.js";
export * from "./errors.js";
