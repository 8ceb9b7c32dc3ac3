import { join } from "node:path";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { createClient } from "@diskmesh/rpc";
import { databaseUrl, documentDatabase, newTabletName, removeTablet } from "@diskmesh/tablet/testing";
import {
  eventually,
  freePort,
  type ServiceProcess,
  spawnService,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { once, type Round } from "./measure.js";
import { storeFleet } from "./stored-fleet.js";

const LEASE_TIME_MS = 5_000;
const HOSTS = 625;

interface Registry {
  readonly process: ServiceProcess;
  readonly address: string;
}

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
  const certificates = await testCertificates();
  const start = (waitFor: "serving" | "listening") => startRegistry({ url, tabletName, certificates, waitFor });
  const leader = await start("serving");
  const standby = await start("listening");
  const operator = createClient(DiskRegistryServiceDefinition, {
    address: [leader.address, standby.address],
    tls: certificates.files("operator"),
    serverRole: "disk-registry",
    defaultDeadlineMs: 60_000,
  });
  try {
    await operator.listHosts({ pageSize: 1 });
    await eventually(() => standby.process.logs.includes("standby caught up"));
    if (standby.process.logs.includes("leadership gained"))
      throw new Error("the machine is too busy: the leader lost its lease before it was killed");
    await leader.process.kill();
    const killedMs = performance.now();
    await operator.listHosts({ pageSize: 1 });
    return { takeover: { value: performance.now() - killedMs, unit: "ms", floor: LEASE_TIME_MS } };
  } finally {
    operator.close();
    for (const { process } of [leader, standby]) await process.kill();
  }
}

async function startRegistry(options: {
  readonly url: string;
  readonly tabletName: string;
  readonly certificates: TestCertificates;
  readonly waitFor: "serving" | "listening";
}): Promise<Registry> {
  const { url, tabletName, certificates, waitFor } = options;
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const process = await spawnService({
    name: `disk-registry-${waitFor}`,
    mainFile: join(repositoryFolder, "services/disk-registry/dist/main.js"),
    config: {
      listen: { host: "127.0.0.1", port },
      tls: certificates.files("disk-registry"),
      tablet: { storage: url, name: tabletName, leaseTimeMs: LEASE_TIME_MS },
    },
    folder: temporaryFolder(),
    health: { address, tls: certificates.files("operator"), serverRole: "disk-registry" },
    waitFor,
  });
  return { process, address };
}
