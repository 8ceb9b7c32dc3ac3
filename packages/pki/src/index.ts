export * from "./agent-authority.js";
export * from "./authority.js";
export * from "./development.js";
export { identifiedKey } from "./identified-key.js";
