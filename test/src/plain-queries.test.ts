import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runInThisContext } from "node:vm";
import { type Device, HostState } from "@diskmesh/api/registry";
import { databaseUrl, documentDatabase, withDatabase } from "@diskmesh/tablet/testing";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { repositoryFolder } from "./repository-folder.js";

const SIZE = 16 * 4096;
const HOSTS = ["host-2", "host-3"];
const DEVICE = "host-3-device-4";

type Database = Parameters<Parameters<typeof withDatabase>[1]>[0];
type Found = Record<string, unknown>;

describe("the queries of docs/operate/mongodb.md, against what a registry wrote into MongoDB", () => {
  let mesh: TestMesh | undefined;
  let url = "";
  const queries = documentedQueries();

  before(async function () {
    leaveToVerify(this);
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    // A separate database, because the queries contain the tablet's name.
    url = databaseUrl(found.url, "diskmesh_plain_queries");
    await withDatabase(url, (database) => database.dropDatabase());
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: HOSTS,
        agent: (hostId, folder) => {
          const devices = [1, 2, 4].map((n) => ({
            deviceId: `${hostId}-device-${n}`,
            path: join(folder, hostId, `${n}`),
          }));
          for (const { path } of devices.slice(0, 2)) makeDeviceFile(path, SIZE);
          return { devices };
        },
        registry: {
          tablet: { storage: url },
          heartbeat: { intervalMs: 500, timeoutMs: 10_000, missedUntilSuspected: 20 },
        },
      }),
    );
    for (const hostId of HOSTS) await eventually(() => mesh?.clients.registry.addHost({ hostId }));
    await eventually(async () => {
      expect((await deviceOf("host-3-device-1")).attachState).to.equal("ATTACH_STATE_ATTACHED");
      expect((await deviceOf("host-3-device-2")).attachState).to.equal("ATTACH_STATE_ATTACHED");
      expect((await deviceOf(DEVICE)).attempts).to.be.above(0);
    });
  });
  after(async () => {
    await mesh?.[Symbol.asyncDispose]();
    if (url !== "") await withDatabase(url, (database) => database.dropDatabase());
  });

  const deviceOf = (deviceId: string): Promise<Device> => (mesh as TestMesh).device(deviceId);
  /** Repeats a query of the page over one connection, until its result passes the check. */
  const finds = (query: string, check: (found: Found[]) => unknown): Promise<unknown> =>
    withDatabase(url, (database) =>
      eventually(async () => {
        const answer = await runInThisContext(`(db) => ${query}`)(shell(database));
        await check("toArray" in answer ? await answer.toArray() : [answer]);
      }),
    );

  it("the devices of a host that are not ATTACHED", () =>
    finds(queries[0], (found) => expect(found.map(({ _id }) => _id)).to.deep.equal([DEVICE])));

  it("one device has the fields that GetDevice returns", () =>
    finds(queries[1], async ([document]) => {
      const device = await deviceOf(DEVICE);
      expect(document).to.include({
        attachState: device.attachState.replace("ATTACH_STATE_", ""),
        health: device.health.replace("HEALTH_", ""),
        generation: device.deviceGeneration,
        attempts: device.attempts,
        lastError: device.lastError,
        stateChangedAtMs: device.stateChangeTime?.getTime(),
      });
      expect(device.lastError).to.contain("there is no such file");
    }));

  it("the orders that keep failing are found on both hosts", () =>
    finds(queries[2], (found) => {
      expect(found.map(({ _id }) => _id)).to.have.members(["host-2-device-4", DEVICE]);
      const attempts = found.map((document) => document.attempts as number);
      expect(attempts).to.deep.equal([...attempts].sort((a, b) => b - a));
    }));

  it("the UNAVAILABLE hosts are those whose agent is dead", async () => {
    await finds(queries[3], (found) => expect(found).to.deep.equal([]));
    await mesh?.process("host-2").kill();
    await finds(queries[3], async ([host, ...others]) => {
      const known = (await mesh?.clients.registry.getHost({ hostId: "host-2" }))?.host;
      expect(known?.state).to.equal(HostState.UNAVAILABLE);
      expect(host).to.include({ _id: "host-2", stateMessage: known?.stateMessage });
      expect(others).to.deep.equal([]);
    });
  });

  it("the leader and its tablet generation", async () => {
    const { tabletGeneration } = await deviceOf(DEVICE);
    await finds(queries[4], ([lease]) =>
      finds(queries[5], ([claim]) => {
        expect(claim).to.include({ generation: tabletGeneration, address: lease?.address });
        expect(lease?.address).to.match(/^127\.0\.0\.1:\d+$/);
      }),
    );
  });
});

/** Returns the page's statements without comments. */
function documentedQueries(): [string, string, string, string, string, string] {
  const text = readFileSync(join(repositoryFolder, "docs/operate/mongodb.md"), "utf8");
  const block = /^```js$(.*?)^```$/ms.exec(text)?.[1] ?? "";
  const lines = block.split("\n").filter((line) => line !== "" && !line.startsWith("//"));
  if (lines.length !== 6) throw new Error(`the page has ${lines.length} queries, and this test knows 6`);
  return lines as ReturnType<typeof documentedQueries>;
}

/** Returns `db` as in mongosh, where `db.a.b` is the collection "a.b". */
function shell(database: Database, name = ""): unknown {
  const collection = database.collection<Found>(name || "none");
  return new Proxy(collection, {
    get: (_, property) => {
      const own = collection[property as keyof typeof collection];
      if (typeof own === "function" && name !== "") return own.bind(collection);
      return shell(database, name === "" ? String(property) : `${name}.${String(property)}`);
    },
  });
}
