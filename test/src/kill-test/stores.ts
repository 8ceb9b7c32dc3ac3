import {
  type DatabaseProcess,
  databaseUrl,
  documentDatabase,
  newTabletName,
  removeTablet,
} from "@diskmesh/tablet/testing";

export const STORE_NAMES = ["lmdb", "mongodb"] as const;
export type StoreName = (typeof STORE_NAMES)[number];

/** Where the registry keeps its tablet during a kill test. */
export interface Store {
  /** For people. */
  readonly title: string;
  /** Processes of the registry, one of which leads. */
  readonly registries: number;
  /** The `tablet` part of their config; the mesh's own folder when absent. */
  readonly tablet?: object;
  /** Killed as well; absent when the store has no process, or one that is not the test's own. */
  readonly database?: DatabaseProcess | undefined;
  readonly remove: () => Promise<void>;
}

/** The store, or why there is none here. */
export async function openStore(name: StoreName): Promise<Store | string> {
  if (name === "lmdb") return { title: "LMDB", registries: 1, remove: async () => {} };
  const found = await documentDatabase();
  if (typeof found === "string") return found;
  const [url, tabletName] = [databaseUrl(found.url), newTabletName()];
  // Short, so that much is done between one takeover and the next.
  const lease = { timeMs: 1_500, safeTimeMs: 1_200, renewIntervalMs: 300 };
  return {
    title: `MongoDB (${found.title})`,
    registries: 2,
    tablet: { storage: url, name: tabletName, lease },
    database: found.process,
    remove: () => removeTablet(url, tabletName),
  };
}
