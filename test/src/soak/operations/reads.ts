import { DomainError } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import { type Operation, persistently, type Soak } from "../soak.js";
import { workInstances } from "./work-instances.js";

const PAGE_SIZE = 7;
const WATCH_MS = 5_000;

/** Reads as operators do: lists in pages, and watches devices. */
export const reads: Operation = {
  name: "list and watch",
  workers: 1,
  async run(soak) {
    const { registry, disks, cpis, locks } = soak.fleet.clients;
    const [hosts, devices] = [new Set<string>(), new Set<string>()];
    // When a process ends between two pages, the list must begin again.
    const pageOfHosts = async (pageToken: string) => {
      const page = await registry.listHosts({ pageSize: 2, pageToken });
      return { items: page.hosts, nextPageToken: page.nextPageToken };
    };
    for (const { hostId } of await persistently("ListHosts", () => allPages(pageOfHosts))) hosts.add(hostId);
    const pageOfDevices = async (pageToken: string) => {
      const page = await registry.listDevices({ pageSize: PAGE_SIZE, pageToken });
      return { items: page.devices, nextPageToken: page.nextPageToken };
    };
    for (const { deviceId } of await persistently("ListDevices", () => allPages(pageOfDevices))) devices.add(deviceId);
    for (const hostId of soak.fleet.workHosts) {
      if (!hosts.has(hostId)) soak.violations.add(`acknowledged is there: host ${hostId} is not listed`);
      if (!devices.has(`${hostId}-d1`)) soak.violations.add(`acknowledged is there: ${hostId}-d1 is not listed`);
    }
    await persistently("ListDisks", () => registry.listDisks({}));
    await persistently("ListDisks", () => disks.listDisks({}));
    const instances = await workInstances(soak);
    if (instances.length !== 2) soak.violations.add(`acknowledged is there: ${instances.length} instances of 2`);
    await persistently("ListCpis", () => cpis.listCpis({}));
    await persistently("ListLocks", () => locks.listLocks({}));
    await watch(soak, devices);
  },
};

/** Requires that the snapshot of a watch contains every listed device. */
async function watch(soak: Soak, listed: ReadonlySet<string>): Promise<void> {
  let seen = new Set<string>();
  try {
    for await (const { update } of soak.fleet.clients.registry.watchDevices({}, { deadlineMs: WATCH_MS })) {
      if (update?.$case === "snapshotBegin") seen = new Set();
      if (update?.$case === "device") seen.add(update.value.deviceId);
      if (update?.$case === "snapshotEnd")
        for (const deviceId of listed)
          if (deviceId.startsWith("work-") && !seen.has(deviceId))
            soak.violations.add(`acknowledged is there: ${deviceId} is listed, and not in a watcher's snapshot`);
    }
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    // The watch ends with its own deadline, unless a process was killed.
    if (error.name !== "TimeoutError")
      soak.measures.failed("registry.WatchDevices", error.name, error.message, "to be repeated");
  }
}
