import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { databaseUrl, documentDatabase, withDatabase } from "@diskmesh/tablet/testing";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import { backUpRegistry } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { repositoryFolder } from "./repository-folder.js";

const SIZE = 16 * 4096;
const HOSTS = ["host-1", "host-2"];
const PATIENCE = { timeoutMs: 60_000 };

const run = (file: string, args: readonly string[]) =>
  promisify(execFile)(process.execPath, [join(repositoryFolder, file), ...args]);

for (const store of ["a folder", "MongoDB"]) {
  describe(`a registry on ${store} that is restored from a backup, while its agents stay up`, () => {
    let mesh: TestMesh | undefined;
    let url = "";

    before(async function () {
      if (store === "MongoDB") {
        leaveToVerify(this);
        const found = await documentDatabase();
        if (typeof found === "string") return skipBecause(this, found);
        url = databaseUrl(found.url, "diskmesh_restore");
        await withDatabase(url, (database) => database.dropDatabase());
      }
      mesh = await TestMesh.start(
        registryFleet({
          hostIds: HOSTS,
          agent: (hostId, folder) => {
            const devices = [1, 2].map((n) => ({
              deviceId: `${hostId}-device-${n}`,
              path: join(folder, hostId, `${n}`),
            }));
            for (const { path } of devices) makeDeviceFile(path, SIZE);
            return { devices };
          },
          registry: {
            ...(url === "" ? {} : { tablet: { storage: url } }),
            heartbeat: { intervalMs: 500, timeoutMs: 10_000, missedUntilSuspected: 20 },
          },
        }),
      );
    });
    after(async () => {
      await mesh?.[Symbol.asyncDispose]();
      if (url !== "") await withDatabase(url, (database) => database.dropDatabase());
    });

    it("has what was there at the backup, knows nothing of later, and is obeyed", async () => {
      const started = mesh as TestMesh;
      const { folder } = started;
      const [operator, registry] = [started.clients.registry, started.process("disk-registry-1")];
      const attachStates = async () => {
        const { devices } = await operator.listDevices({});
        return Object.fromEntries(devices.map((device) => [device.deviceId, device.attachState]));
      };
      for (const hostId of HOSTS) await eventually(() => operator.addHost({ hostId }), PATIENCE);
      const allAttached = async () => {
        const found = Object.values(await attachStates());
        expect(found).to.deep.equal(Array.from({ length: 4 }, () => "ATTACH_STATE_ATTACHED"));
      };
      await eventually(allAttached, PATIENCE);
      const file = join(folder, "registry.backup");
      const stdout = await backUpRegistry(started, file);
      expect(stdout).to.match(/documents of tablet registry, [0-9a-f-]{36}, generation 1/);

      const device = { hostId: "host-1", deviceId: "host-1-device-1", keepData: true };
      await eventually(async () => {
        expect((await operator.removeDevice(device)).result?.code).to.equal("ACTION_CODE_S_OK");
      }, PATIENCE);
      const before = (await operator.getDevice({ deviceId: device.deviceId })).device;
      expect(before?.attachState).to.equal("ATTACH_STATE_DETACHED");
      await registry.stop();

      const config = join(folder, "disk-registry-1.yaml");
      const restored = await run("services/disk-registry/dist/restore.js", [
        "--config",
        config,
        "--from",
        file,
        "--replace",
      ]);
      expect(restored.stdout).to.contain("restored ").and.to.contain("incarnation ");
      await registry.start();
      // As it was at the backup: its agent, which stayed up and had let go of the device, holds it again.
      await eventually(allAttached, PATIENCE);
      const after = (await operator.getDevice({ deviceId: device.deviceId })).device;
      expect(after?.tabletGeneration).to.be.above(2 ** 20);
      await eventually(async () => {
        expect((await operator.removeDevice(device)).result?.code).to.equal("ACTION_CODE_S_OK");
      }, PATIENCE);
      const last = (await operator.getDevice({ deviceId: device.deviceId })).device;
      expect(last?.detachConfirmed).to.equal(true);
      expect(last?.deviceGeneration).to.be.above(2 ** 32);
    });
  });
}
