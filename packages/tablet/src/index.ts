export { restoreBackup, restoredClaim, restoredDocument } from "./backup/restore.js";
export * from "./clock.js";
export { openLmdbStorage } from "./lmdb/lmdb-storage.js";
export * from "./memory-tables.js";
export * from "./open-storage.js";
export * from "./schema.js";
export { checkOf, shapeOf } from "./shape.js";
export * from "./storage.js";
export * from "./tablet.js";
