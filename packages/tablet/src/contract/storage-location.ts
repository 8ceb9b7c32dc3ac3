import type { TabletStorage } from "../storage.js";

/** One tablet's state somewhere, as an adapter's tests provide it. */
export interface StorageLocation {
  /** A new client of the state, as another process would have it; several may be open at once. */
  open(): TabletStorage;
  /** For processes: a module that exports `openLocation(argument): TabletStorage`. */
  readonly moduleUrl: string;
  readonly argument: string;
  remove(): Promise<void>;
}

/** Documents by table and key. */
export type Contents = Map<string, unknown>;
