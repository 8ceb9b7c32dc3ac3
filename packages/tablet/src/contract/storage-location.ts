import type { TabletStorage } from "../storage/storage.js";

/** Location of one tablet's state, provided by the tests of an adapter. */
export interface StorageLocation {
  /** Opens a new client of the state, as another process would; several may be open at once. */
  open(): TabletStorage;
  /** Module for child processes; it exports `openLocation(argument): TabletStorage`. */
  readonly moduleUrl: string;
  readonly argument: string;
  remove(): Promise<void>;
}

export type Contents = Map<string, unknown>;
