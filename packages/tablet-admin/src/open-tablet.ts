import { counterOf } from "@diskmesh/metrics";
import { leaseTimes, type Waiting } from "@diskmesh/service";
import { openStorage, type Schema, Tablet } from "@diskmesh/tablet";
import { tabletMetrics } from "./metrics.js";

/** The `tablet` section of a service's config. */
export interface TabletConfig {
  /** Path of a folder, or URL of a database. */
  readonly storage: string;
  readonly name: string;
  readonly leaseTimeMs: number;
}

export function storageOf(config: TabletConfig): ReturnType<typeof openStorage> {
  const { storage, name, leaseTimeMs } = config;
  return openStorage(storage, name, { mongo: { leaseTimeMs, safeLeaseTimeMs: leaseTimes(config).safeTimeMs } });
}

/** Waits until this process may lead, then takes the lease of the service's tablet. */
export function openServiceTablet<S extends Schema>(
  config: TabletConfig,
  schema: S,
  address: string,
  waiting: Waiting,
): Promise<Tablet<S>> {
  const { name } = config;
  const { renewIntervalMs } = leaseTimes(config);
  const onEdited = (text: string, documents: number): void => {
    counterOf(tabletMetrics.edited).add(documents);
    waiting.onEdited(text, documents);
  };
  return Tablet.open({
    name,
    schema,
    storage: storageOf(config),
    address,
    limits: { renewIntervalMs },
    ...waiting,
    expects: "a tablet",
    onEdited,
  });
}
