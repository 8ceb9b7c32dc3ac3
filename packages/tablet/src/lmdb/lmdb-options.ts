/** Address space, not disk space. LMDB maps more when a file outgrows it, but then must wait for all readers. */
const MAP_SIZE_BYTES = 64 * 2 ** 30;
const DATABASES_MAX = 64;

/** How every data file is opened, beside its path and encoding. */
export const LMDB_OPTIONS = {
  // Otherwise a folder whose name holds a dot would be taken for a file.
  noSubdir: false,
  // Off: a commit is then resolved only when it is synced, and after a crash nothing newer needs to be judged.
  overlappingSync: false,
  // Off: its batches hold a promise of their own, whose rejection by a full disk nobody could handle.
  eventTurnBatching: false,
  mapSize: MAP_SIZE_BYTES,
  maxDbs: DATABASES_MAX,
} as const;
