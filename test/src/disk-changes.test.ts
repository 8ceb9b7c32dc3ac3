import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, deployInstances, devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

const BLOCK_BYTES = 4_096;
const CLOUD_CONFIG =
  "azs:\n- name: z1\ndisk_types:\n- name: default\n  disk_size: 1\n  cloud_properties: {export: nbd}\n";

describe("a dynamic disk that is changed while it is attached, on the node engine", () => {
  let mesh: TestMesh;
  let instanceId: string;

  before(async () => {
    const agent = { "disk-agent": { engine: "node" } };
    const overrides = { director: { dynamicDisks: { enabled: true } }, ...agent };
    mesh = await TestMesh.start(wholeFleet({ hosts: 1, devicesPerHost: 4, deviceSizeBytes: MIB_BYTES, overrides }));
    await addHosts(mesh);
    await devicesReady(mesh);
    [instanceId = ""] = await deployInstances(mesh);
    await mesh.clients.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  /** Provides a disk of a device, and returns the path at which the VM finds it. */
  const provide = async (diskName: string, readOnly = false): Promise<string> => {
    const wanted = { diskName, instanceId, diskPoolName: "default", sizeBytes: MIB_BYTES, readOnly, wait: true };
    const { task, disk } = await mesh.clients.disks.provideDynamicDisk(wanted);
    expect(task?.state, task?.result).to.equal("TASK_STATE_DONE");
    return String(disk?.diskHint?.path);
  };
  const remove = async (diskName: string): Promise<void> => {
    await mesh.clients.disks.detachDynamicDisk({ diskName, wait: true });
    expect((await mesh.clients.disks.deleteDynamicDisk({ diskName, wait: true })).task?.state).to.equal(
      "TASK_STATE_DONE",
    );
  };
  const typed = async (...line: string[]): Promise<void> => {
    const { code, err } = await mesh.typed(...line);
    expect(code, err).to.equal(0);
  };

  /** Changes the limits, and waits until the host has confirmed them. */
  const limited = async (...line: string[]): Promise<void> => {
    await typed("limits", "limited", ...line, "--json");
    await eventually(async () => {
      const { disks } = await mesh.clients.registry.listDisks({});
      return disks.every(({ publication }) => publication?.changePending !== true);
    });
  };

  it("limits hold on an open connection, change on it, and are lifted again", async () => {
    const client = await NbdClient.connect({ socketPath: await provide("limited") });
    const read = async (count: number): Promise<number> => {
      const startedMs = performance.now();
      await Promise.all(Array.from({ length: count }, () => client.read(0, BLOCK_BYTES)));
      return performance.now() - startedMs;
    };
    await read(200);
    await limited("--read-iops", "20");
    expect(await read(40)).to.be.above(1_000);
    await limited("--none");
    // Takes 200 s with the former limit.
    expect(await read(4_000)).to.be.below(120_000);
    await client.disconnect();
    await remove("limited");
  });

  it("read-only -> stock clients see it, and writes are refused", async function () {
    skipWithout(this, "nbdinfo");
    const socketPath = await provide("readable", true);
    const uri = `nbd+unix:///?socket=${socketPath}`;
    await promisify(execFile)("nbdinfo", ["--is", "read-only", uri]);
    const client = await NbdClient.connect({ socketPath });
    const refused = (await rejection(client.write(0, Buffer.alloc(BLOCK_BYTES, 1)))) as { code?: string };
    expect(refused.code).to.equal("EPERM");
    expect(await client.read(0, BLOCK_BYTES)).to.deep.equal(Buffer.alloc(BLOCK_BYTES));
    await client.disconnect();
    await remove("readable");
  });

  it("a larger size reaches new connections; the data and open connections stay", async () => {
    const socketPath = await provide("grown");
    const { freeBytes } = await mesh.clients.disks.getDynamicDiskCapacity({ az: "z1", diskPoolName: "default" });
    const before = await NbdClient.connect({ socketPath });
    const data = Buffer.alloc(MIB_BYTES, "kept ");
    await before.write(0, data, { fua: true });
    await typed("resize", "grown", "2MiB", "--json");
    const after = await NbdClient.connect({ socketPath });
    expect([before.sizeBytes, after.sizeBytes]).to.deep.equal([MIB_BYTES, 2 * MIB_BYTES]);
    await after.write(MIB_BYTES, data, { fua: true });
    expect((await before.read(0, MIB_BYTES)).equals(data)).to.equal(true);
    expect((await after.read(0, 2 * MIB_BYTES)).equals(Buffer.concat([data, data]))).to.equal(true);
    const left = await mesh.clients.disks.getDynamicDiskCapacity({ az: "z1", diskPoolName: "default" });
    expect(left.freeBytes).to.equal(freeBytes - MIB_BYTES);
    for (const client of [before, after]) await client.disconnect();
    await remove("grown");
  });
});
