import { type Device, schema } from "@diskmesh/disk-registry/simulation";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { heapBytes, once } from "./measure.js";
import { DEVICES_PER_HOST, storeFleet } from "./stored-fleet.js";

const HOSTS = 12_500;
const DEVICES = HOSTS * DEVICES_PER_HOST;
const CHANGED_AT_ONCE = 2_000;

/** Measures a registry's memory per device, after the load and after each device has changed, and the rate of the load. */
export const measureMemory = once(async (report) => {
  report(`the memory of ${DEVICES} devices`);
  const storage = temporaryFolder();
  await storeFleet(storage, HOSTS);
  const before = heapBytes();
  const openedMs = performance.now();
  await using tablet = await Tablet.open({
    name: "registry",
    schema,
    storage: openStorage(storage, "registry"),
    address: "",
  });
  const rate = (1_000 * DEVICES) / (performance.now() - openedMs);
  const perDevice = () => ({ value: (heapBytes() - before) / DEVICES, unit: "bytes/device" });
  const loaded = perDevice();
  // Changes each device as the registry does: removes an optional field.
  for (let after = "", isMore = true; isMore; )
    await tablet.transact((tx) => {
      const some: readonly Device[] = [...tx.devices.entries({ after, limit: CHANGED_AT_ONCE })];
      for (const { missing: _, ...rest } of some) tx.devices.put({ ...rest, generation: rest.generation + 1 });
      after = some.at(-1)?.deviceId ?? "";
      isMore = some.length === CHANGED_AT_ONCE;
    });
  return {
    memory_loaded: loaded,
    memory_changed: perDevice(),
    memory_load_rate: { value: rate, unit: "devices/s" },
  };
});
