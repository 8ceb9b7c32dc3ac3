import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { databaseUrl, documentDatabase, newTabletName, removeTablet } from "@diskmesh/tablet/testing";
import { eventually } from "@diskmesh/testkit";
import { TestMesh } from "../mesh/test-mesh.js";
import { once, type Round } from "./measure.js";
import { storeFleet } from "./stored-fleet.js";

const LEASE_TIME_MS = 5_000;
const HOSTS = 625;

/**
 * Measures the time from SIGKILL of the leader of 10,000 devices until the standby answers a client that was connected
 * to the former leader. The floor is the lease.
 */
export const measureTakeover = once(async (report) => {
  const database = await documentDatabase();
  if (typeof database === "string") {
    report(`NOT MEASURED: takeover, since ${database}`);
    return {};
  }
  report(`the takeover of a registry that was killed, in ${database.title}`);
  const [url, tabletName] = [databaseUrl(database.url), newTabletName()];
  try {
    await storeFleet(url, HOSTS, tabletName);
    return await takeover(url, tabletName);
  } finally {
    await removeTablet(url, tabletName);
  }
});

async function takeover(url: string, tabletName: string): Promise<Round> {
  await using mesh = await TestMesh.start({
    processes: [{ service: "disk-registry", name: "leader" }],
    listeners: ["standby"],
    tablet: () => ({ storage: url, name: tabletName, leaseTimeMs: LEASE_TIME_MS }),
    deadlineMs: 60_000,
  });
  await mesh.add({ service: "disk-registry", name: "standby", waitFor: "listening" });
  const names = ["leader", "standby"];
  const operator = mesh.client(DiskRegistryServiceDefinition, "disk-registry", { names });
  const standby = mesh.process("standby");
  await operator.listHosts({ pageSize: 1 });
  await eventually(() => standby.logs.includes("standby caught up"));
  if (standby.logs.includes("leadership gained"))
    throw new Error("the machine is too busy: the leader lost its lease before it was killed");
  await mesh.process("leader").kill();
  const killedMs = performance.now();
  await operator.listHosts({ pageSize: 1 });
  return { takeover: { value: performance.now() - killedMs, unit: "ms", floor: LEASE_TIME_MS } };
}
