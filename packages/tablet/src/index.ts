export * from "./clock.js";
export type { LmdbOptions } from "./lmdb/environment.js";
export { openLmdbEventLog } from "./lmdb/lmdb-event-log.js";
export { openLmdbStorage } from "./lmdb/lmdb-storage.js";
export * from "./memory-tables.js";
export * from "./open-storage.js";
export * from "./schema.js";
export * from "./storage.js";
export * from "./tablet.js";
