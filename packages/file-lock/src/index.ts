export * from "./device-number.js";
export { type FileLocking, lockFile } from "./file-lock.js";
export * from "./folder-lock.js";
export * from "./lock-holder.js";
export { punchHole } from "./punch-hole.js";
export { swapNames } from "./swap-names.js";
