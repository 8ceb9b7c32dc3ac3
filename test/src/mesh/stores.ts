import {
  type DatabasePlace,
  type DatabaseProcess,
  databaseUrl,
  documentDatabase,
  newDocumentDatabase,
  newTabletName,
  removeTablet,
} from "@diskmesh/tablet/testing";

export const STORE_NAMES = ["embedded", "mongodb"] as const;
export type StoreName = (typeof STORE_NAMES)[number];

/** Where services keep their tablets during a test. */
export interface Store {
  readonly name: StoreName;
  /** The store's name for people. */
  readonly title: string;
  /** Processes of a service, one of which leads. */
  readonly registries: number;
  /** The `tablet` part of a service's config; a folder of its own when absent. */
  readonly tablet?: (service: string) => object;
  /** Killed as well; absent when the store has no process, or one that is not the test's own. */
  readonly database?: DatabaseProcess | undefined;
  readonly remove: () => Promise<void>;
}

/** The store, or why there is none here; `place` asks for a database of the caller's own. */
export async function openStore(name: StoreName, place?: DatabasePlace): Promise<Store | string> {
  if (name === "embedded") return { name, title: "the embedded store", registries: 1, remove: async () => {} };
  const found = await (place === undefined ? documentDatabase() : newDocumentDatabase(place));
  if (typeof found === "string") return found;
  const [url, prefix] = [databaseUrl(found.url), newTabletName()];
  const names = new Set<string>();
  // Short, so that much is done between one takeover and the next.
  const leaseTimeMs = 1_500;
  return {
    name,
    title: `MongoDB (${found.title})`,
    registries: 2,
    tablet: (service) => {
      const tabletName = `${prefix}-${service}`;
      names.add(tabletName);
      return { storage: url, name: tabletName, leaseTimeMs };
    },
    database: found.process,
    remove: async () => {
      for (const tabletName of names) await removeTablet(url, tabletName);
    },
  };
}
