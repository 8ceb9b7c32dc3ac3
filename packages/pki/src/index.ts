export * from "./authority.js";
export * from "./development.js";
