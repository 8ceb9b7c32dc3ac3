import { execFileSync } from "node:child_process";
import { linkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import { Outsider } from "@diskmesh/file-lock/testing";
import { createClient } from "@diskmesh/rpc";
import {
  eventually,
  leaveToVerify,
  skipWithout,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { expect } from "chai";
import { startTestAgent, type TestAgent } from "../testing/agent-process.js";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { countDescriptors } from "../testing/file-holders.js";
import { TestRegistry } from "../testing/test-registry.js";

const SIZE = 64 * 4096;

describe("device files between processes", () => {
  let certs: TestCertificates;
  let folder: string;
  let registry: TestRegistry;
  let path: string;
  const agents: TestAgent[] = [];

  before(async () => {
    certs = await testCertificates({ hostIds: ["host-1", "host-2"] });
  });

  beforeEach(async () => {
    folder = temporaryFolder();
    path = makeDeviceFile(folder, "a", SIZE);
    registry = new TestRegistry(certs.files("disk-registry"));
    await registry.start();
  });

  afterEach(async () => {
    for (const agent of agents.splice(0)) await agent.process.kill();
    await registry.stop();
  });

  const start = async (hostId: string, devices: readonly object[]) => {
    const agent = await startTestAgent({
      hostId,
      folder: join(folder, hostId),
      certs,
      registryAddress: registry.address,
      devices,
      config: { tuning: { rescanIntervalMs: 100 } },
    });
    agents.push(agent);
    return agent;
  };

  const list = async (agent: TestAgent) => {
    const tls = certs.files("operator");
    const options = { address: agent.address, tls, serverRole: "disk-agent", defaultDeadlineMs: 60_000 } as const;
    const client = createClient(DiskAgentServiceDefinition, options);
    try {
      return (await client.listDevices({})).devices;
    } finally {
      client.close();
    }
  };

  it("make the second of two agents' devices ERROR with the first one's pid, until that is killed", async () => {
    const first = await start("host-1", [{ deviceId: "a-1", path }]);
    const second = await start("host-2", [{ deviceId: "a-2", path }]);
    const told = await registry.registered("host-2");
    expect(told.devices[0]).to.deep.include({ deviceId: "a-2", health: "HEALTH_ERROR", attached: false });
    expect(told.devices[0]?.healthMessage).to.contain(`is locked by process ${first.process.pid} (`);
    expect((await list(second))[0]).to.include({ attached: false, health: "HEALTH_ERROR" });
    expect(countDescriptors(first.process.pid, path)).to.equal(1);
    await first.process.kill();
    await eventually(async () => (await list(second))[0]?.attached === true);
    expect((await list(second))[0]).to.include({ health: "HEALTH_ONLINE", healthMessage: "" });
    await eventually(() =>
      registry.heartbeats.some(({ changed }) => changed.some(({ health }) => health === "HEALTH_ONLINE")),
    );
    // The agent that restarts second gets no lock.
    await first.process.start();
    expect((await list(first))[0]?.healthMessage).to.contain(`process ${second.process.pid} (`);
  });

  it("make a device ERROR with the pid of another program's lock, and no other device", async function () {
    skipWithout(this, "python3");
    leaveToVerify(this);
    const other = makeDeviceFile(folder, "b", SIZE);
    await using outsider = await Outsider.lock(path, "ofd");
    const agent = await start("host-1", [
      { deviceId: "dev-a", path },
      { deviceId: "dev-b", path: other },
    ]);
    const [a, b] = await list(agent);
    expect(a).to.include({ attached: false, health: "HEALTH_ERROR" });
    expect(a?.healthMessage).to.contain(`process ${outsider.pid} (python3)`);
    expect(b).to.include({ attached: true, health: "HEALTH_ONLINE" });
  });

  it("cannot be locked by other programs while held, and QEMU's tools can read their metadata", async function () {
    skipWithout(this, "python3", "qemu-img", "qemu-io");
    await start("host-1", [{ deviceId: "a", path }]);
    for (const kind of ["ofd", "posix"] as const) {
      await using outsider = await Outsider.lock(path, kind);
      expect(outsider.said).to.match(/temporarily unavailable/);
    }
    const info = execFileSync("qemu-img", ["info", "-f", "raw", "--output=json", path], { encoding: "utf8" });
    expect(JSON.parse(info)["virtual-size"]).to.equal(SIZE);
    execFileSync("qemu-io", ["-f", "raw", "-r", "-c", "read 0 4096", path]);
  });

  it("make the second of one agent's overlapping devices by a link ERROR with both names; disjoint ones share", async function () {
    leaveToVerify(this);
    const link = join(folder, "link");
    const symlink = join(folder, "symlink");
    linkSync(path, link);
    symlinkSync(path, symlink);
    const agent = await start("host-1", [
      { deviceId: "head", path, sizeBytes: SIZE / 2 },
      { deviceId: "tail", path: link, offsetBytes: SIZE / 2 },
      { deviceId: "middle", path: symlink, offsetBytes: SIZE / 4, sizeBytes: SIZE / 2 },
    ]);
    const devices = new Map((await list(agent)).map((device) => [device.deviceId, device]));
    const attached = [...devices.values()].filter((device) => device.attached).map(({ deviceId }) => deviceId);
    // The device whose file is opened first wins.
    expect(attached.join()).to.be.oneOf(["head,tail", "middle"]);
    const [refused] = [...devices.values()].filter((device) => !device.attached);
    expect(refused?.healthMessage).to.match(
      /device (head|tail|middle), file .* on the same bytes as device (head|tail|middle),/,
    );
    const descriptors = [path, link].map((name) => countDescriptors(agent.process.pid, name));
    expect(descriptors.reduce((sum, count) => sum + count)).to.equal(1);
  });
});
