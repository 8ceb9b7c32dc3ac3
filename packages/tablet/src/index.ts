export { restoreBackup, restoredClaim, restoredDocument } from "./backup/restore.js";
export * from "./clock.js";
export * from "./memory-tables.js";
export * from "./open-storage.js";
export * from "./schema.js";
export { checkOf, shapeOf } from "./shape.js";
export * from "./storage.js";
export * from "./tablet.js";
export { type Follows, follow, Tally, Waits } from "./tally.js";
