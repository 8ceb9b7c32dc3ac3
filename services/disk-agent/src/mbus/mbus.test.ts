import { lstatSync, readdirSync, readlinkSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { identityUri } from "@diskmesh/domain";
import { AgentClient, connectNats, mbusPermissions, type NatsConnection, watchHeartbeats } from "@diskmesh/mbus";
import {
  eventually,
  type NatsServer,
  startNats,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import { startTestAgent, type TestAgent } from "../testing/agent-process.js";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { AgentOrders, TestRegistry } from "../testing/test-registry.js";

const SIZE = 64 * 4096;

describe("the agent on mbus", () => {
  let certs: TestCertificates;
  let registry: TestRegistry;
  let nats: NatsServer;
  let director: NatsConnection;
  let client: AgentClient;
  let agent: TestAgent;
  let orders: AgentOrders;
  let link: string;
  let exported: string;

  before(async () => {
    certs = await testCertificates({ hostIds: ["host-1"] });
    const folder = temporaryFolder();
    const users = [{ role: "director", name: "" } as const, { role: "disk-agent", name: "host-1" } as const].map(
      (identity) => ({ user: identityUri(identity), ...mbusPermissions(identity) }),
    );
    nats = await startNats({ folder, certs, users });
    registry = new TestRegistry(certs.files("disk-registry"));
    await registry.start();
    agent = await startTestAgent({
      hostId: "host-1",
      folder,
      certs,
      registryAddress: registry.address,
      devices: [{ deviceId: "dev-a", path: makeDeviceFile(folder, "a", SIZE), sizeBytes: SIZE }],
      config: {
        nats: { servers: [nats.address], tls: certs.files("disk-agent-host-1") },
        tuning: { mbusHeartbeatIntervalMs: 100 },
      },
    });
    director = await connectNats({ servers: [nats.address], tls: certs.files("director"), name: "director" });
    await director.whenConnected(AbortSignal.timeout(120_000));
    client = new AgentClient({
      nats: director,
      directorId: "director-1",
      requestTimeoutMs: 10_000,
      callTimeoutMs: 60_000,
      taskPollIntervalMs: 20,
    });
    const { bootId } = await registry.registered("host-1");
    orders = new AgentOrders(registry, "host-1", agent.address, certs.files("disk-registry"), bootId);
    await orders.openSession(["dev-a"], 1, "disk-1", "host-1");
    const extent = { deviceId: "dev-a", hostId: "host-1", address: agent.address, sizeBytes: SIZE };
    exported = await orders.export("disk-1", 1, [extent]);
    link = join(agent.baseFolder, "data", "dynamic_disks", "disk-1");
  });

  after(async () => {
    orders?.client.close();
    await client?.close();
    await director?.close();
    await agent?.process.kill();
    await nats?.kill();
    await registry?.stop();
  });

  const call = (method: string, ...args: unknown[]) => client.call("host-1", method, args);
  const failure = (method: string, ...args: unknown[]) =>
    call(method, ...args).then(
      () => "succeeded",
      (error) => error.message,
    );

  it("answers ping, info, get_state and list_disk, and sends heartbeats", async () => {
    expect(await call("ping")).to.equal("pong");
    expect(await call("info")).to.deep.equal({ api_version: 1 });
    expect(await call("get_state")).to.include({ agent_id: "host-1", job_state: "running" });
    expect(await call("get_state")).not.to.have.property("vitals");
    expect(await call("get_state", "full")).to.have.property("vitals");
    expect(await call("list_disk")).to.deep.equal([]);
    expect(await failure("format_disk")).to.match(/does not support the method.*format_disk/);
    const beats: unknown[] = [];
    const watching = watchHeartbeats(director, (agentId, beat) => beats.push({ agentId, beat }));
    await eventually(() => beats.length > 0);
    watching.unsubscribe();
    expect(beats[0]).to.have.nested.property("beat.job_state", "running");
  });

  it("links a dynamic disk to its export and removes it, idempotently", async () => {
    expect(await call("add_dynamic_disk", "disk-1", { path: exported })).to.deep.equal({});
    expect(readlinkSync(link)).to.equal(exported);
    expect(await call("list_dynamic_disks")).to.deep.equal(["disk-1"]);
    expect(await call("list_disk")).to.deep.equal([]);
    const inode = lstatSync(link).ino;
    await call("add_dynamic_disk", "disk-1", null);
    expect(lstatSync(link).ino, "an equal link was replaced").to.equal(inode);
    const disk = await NbdClient.connect({ socketPath: link });
    expect(disk.sizeBytes).to.equal(SIZE);
    await disk.disconnect();
    unlinkSync(link);
    symlinkSync("/etc/passwd", link);
    await call("add_dynamic_disk", "disk-1", exported);
    expect(readlinkSync(link)).to.equal(exported);
    expect(await call("remove_dynamic_disk", "disk-1")).to.deep.equal({});
    expect(() => lstatSync(link)).to.throw(/ENOENT/);
    expect(await call("remove_dynamic_disk", "disk-1")).to.deep.equal({});
  });

  it("links a persistent disk, which counts as mounted until it is removed", async () => {
    const persistent = join(agent.baseFolder, "data", "persistent_disks", "disk-1");
    expect(await failure("mount_disk", "disk-1")).to.match(/persistent disk disk-1 could not be found/);
    expect(await failure("unmount_disk", "disk-1")).to.match(/persistent disk disk-1 could not be found/);
    expect(await call("add_persistent_disk", "disk-1", { path: exported })).to.deep.equal({});
    expect(await call("mount_disk", "disk-1")).to.deep.equal({});
    expect(readlinkSync(persistent)).to.equal(exported);
    expect(() => lstatSync(link), "a dynamic disk").to.throw(/ENOENT/);
    symlinkSync(exported, `${persistent}.new`);
    symlinkSync(
      join(agent.baseFolder, "exports", "disk-9.sock"),
      join(agent.baseFolder, "data/persistent_disks/disk-9"),
    );
    expect(await call("list_disk")).to.deep.equal(["disk-1"], "neither half a link nor one to what is not served");
    expect(await failure("mount_disk", "disk-9")).to.match(/persistent disk disk-9 could not be found/);
    expect(await call("unmount_disk", "disk-1")).to.have.property("message");
    for (let times = 0; times < 2; times++) expect(await call("remove_persistent_disk", "disk-1")).to.deep.equal({});
    expect(() => lstatSync(persistent)).to.throw(/ENOENT/);
    expect(await call("list_disk")).to.deep.equal([]);
    expect(await failure("mount_disk", "../disk-1")).to.match(/malformed/);
    expect(await failure("add_persistent_disk", "disk-2", null)).to.match(/disk disk-2 is not exported on this host/);
  });

  const refused: [string, unknown[], RegExp][] = [
    ["a disk that is not exported here", ["disk-2", null], /disk disk-2 is not exported on this host/],
    ["a hint to another path", ["disk-1", { path: "/etc/passwd" }], /is not the export of disk disk-1/],
    ["a text hint to another path", ["disk-1", "/etc/passwd"], /is not the export of disk disk-1/],
    ["a hint whose path is no text", ["disk-1", { path: 5 }], /not a string/],
    ["a hint that is a list", ["disk-1", []], /neither an object/],
    ["a cid that is a path", ["../disk-1", null], /malformed/],
    ["a cid that is no text", [5, null], /not a string/],
    ["too few arguments", ["disk-1"], /Not enough arguments, expected 2, got 1/],
  ];
  for (const [title, args, message] of refused)
    it(`${title} is an exception and makes no link`, async () => {
      expect(await failure("add_dynamic_disk", ...args)).to.match(message);
      expect(() => lstatSync(link)).to.throw(/ENOENT/);
    });

  it("reconnects after a restart of NATS", async () => {
    await nats.restart();
    await eventually(async () => (await failure("ping")) === "succeeded");
  });

  it("removes dead sockets and links of ended exports at the start after a kill, and nothing else", async () => {
    await call("add_dynamic_disk", "disk-1", exported);
    await agent.process.kill();
    const exports = join(agent.baseFolder, "exports");
    const links = join(agent.baseFolder, "data", "dynamic_disks");
    // Simulates a kill during the end of disk-9's export.
    renameSync(exported, join(exports, "disk-9.sock"));
    symlinkSync(join(exports, "disk-9.sock"), join(links, "disk-9"));
    writeFileSync(join(exports, "disk-8.sock"), "no socket");
    symlinkSync("/etc/passwd", join(links, "disk-8"));
    const living = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => living.listen(join(exports, "disk-7.sock"), resolve));
    try {
      await agent.process.start();
      expect(readdirSync(exports).sort()).to.deep.equal(["disk-1.sock", "disk-7.sock", "disk-8.sock"]);
      expect(readdirSync(links).sort()).to.deep.equal(["disk-1", "disk-8"]);
      expect(agent.process.logs).to.contain("stale sockets and links removed");
      await (await NbdClient.connect({ socketPath: link })).disconnect();
    } finally {
      living.close();
    }
  });
});
