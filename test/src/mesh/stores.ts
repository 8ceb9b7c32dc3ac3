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

/** Storage of services during a test. */
export interface Store {
  readonly name: StoreName;
  /** Name of the store for reports. */
  readonly title: string;
  /** Number of processes of a service, one of which leads. */
  readonly registries: number;
  /** Returns the `tablet` config of a service; absent: its own folder. */
  readonly tablet?: (service: string) => object;
  /** Database process that tests may kill; absent when the store has none, or the test did not start it. */
  readonly database?: DatabaseProcess | undefined;
  readonly remove: () => Promise<void>;
}

/** Returns the store, or the reason why it is not available; `place` requests a separate database. */
export async function openStore(name: StoreName, place?: DatabasePlace): Promise<Store | string> {
  if (name === "embedded") return { name, title: "the embedded store", registries: 1, remove: async () => {} };
  const found = await (place === undefined ? documentDatabase() : newDocumentDatabase(place));
  if (typeof found === "string") return found;
  const [url, prefix] = [databaseUrl(found.url), newTabletName()];
  const names = new Set<string>();
  // Short lease, so that takeovers take little of the test's time.
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
