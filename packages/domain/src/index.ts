export * from "./backoff.js";
export * from "./disk-full.js";
export * from "./errors.js";
export * from "./file-identity.js";
export * from "./identifiers.js";
export * from "./role.js";
export * from "./sizes.js";
export * from "./stamp.js";
