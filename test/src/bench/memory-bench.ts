import { type Device, schema } from "@diskmesh/disk-registry/simulation";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { databaseUrl, documentDatabase, newTabletName, removeTablet } from "@diskmesh/tablet/testing";
import { collectGarbage, temporaryFolder } from "@diskmesh/testkit";
import { device, deviceIdOf } from "./devices.js";
import { type Measurement, measurement } from "./measure.js";

const EMBEDDED_DEVICES = 200_000;
/** Fewer devices than in the embedded store, so that an average MongoDB server takes as long. */
const DEVICES_IN_MONGO = 40_000;
const PER_TRANSACTION = 2_000;
const LIMIT_BYTES = 1_024;
/** Rate at which a million devices are loaded within 20 s. */
const MIN_LOADED_PER_SECOND = 50_000;

type RegistryTablet = Tablet<typeof schema>;

/** Measures a registry's memory per device, after the load and after each device has changed, and the rate of the load. */
export async function benchMemory(report: (line: string) => void): Promise<Measurement[]> {
  report(`the memory of ${EMBEDDED_DEVICES} devices, loaded from the embedded store`);
  const measurements = await measured("embedded", temporaryFolder(), "registry", EMBEDDED_DEVICES);
  const database = await documentDatabase();
  if (typeof database === "string") {
    report(`NOT MEASURED: device_memory_mongo_*, since ${database}`);
    return measurements;
  }
  report(`the memory of ${DEVICES_IN_MONGO} devices, loaded from ${database.title}`);
  const [url, name] = [databaseUrl(database.url), newTabletName()];
  try {
    return [...measurements, ...(await measured("mongo", url, name, DEVICES_IN_MONGO))];
  } finally {
    await removeTablet(url, name);
  }
}

async function measured(store: string, url: string, name: string, devices: number): Promise<Measurement[]> {
  const open = (): Promise<RegistryTablet> =>
    Tablet.open({ name: "registry", schema, storage: openStorage(url, name), address: "" });
  await using writer = await open();
  await everyDevice(writer, devices, (_, index) => device(index));
  await writer.close();
  const before = heapBytes();
  const openedMs = performance.now();
  await using tablet = await open();
  const loadedPerSecond = (1_000 * devices) / (performance.now() - openedMs);
  const one = (what: string, bytes: number): Measurement =>
    measurement({
      name: `device_memory_${store}_${what}`,
      value: bytes / devices,
      unit: "bytes/device",
      floor: LIMIT_BYTES,
      floorOf: "the most that is allowed",
      budget: { atMost: 1 },
    });
  const loaded = one("loaded", heapBytes() - before);
  if (store === "mongo") return [loaded];
  const rate = measurement({
    name: `device_load_${store}`,
    value: loadedPerSecond,
    unit: "devices/s",
    floor: MIN_LOADED_PER_SECOND,
    floorOf: "a million within 20 s",
    budget: { atLeast: 1 },
  });
  // Changes each device as the registry does: removes an optional field.
  await everyDevice(tablet, devices, (found) => {
    const { missing: _, ...rest } = found as Device;
    return { ...rest, generation: rest.generation + 1, lastError: "" };
  });
  return [rate, loaded, one("changed", heapBytes() - before)];
}

async function everyDevice(
  tablet: RegistryTablet,
  devices: number,
  next: (found: Device | undefined, index: number) => Device,
): Promise<void> {
  for (let first = 0; first < devices; first += PER_TRANSACTION)
    await tablet.transact((tx) => {
      for (let index = first; index < Math.min(devices, first + PER_TRANSACTION); index++)
        tx.devices.put(next(tx.devices.get(deviceIdOf(index)), index));
    });
}

function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
