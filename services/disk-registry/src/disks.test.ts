import { OrderOutcome } from "@diskmesh/api/internal";
import { devicesWithBytes, PublicationState } from "@diskmesh/api/registry";
import {
  AbortedError,
  AlreadyExistsError,
  DeviceIoError,
  InvalidArgumentError,
  InvalidStateError,
  MIB_BYTES,
  NotFoundError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

describe("disk-registry creates disks and publishes them on hosts", () => {
  const fleet = SharedRegistry.forAllTests();

  it("replaces labels only if they are those that the caller has read, where it says which", async () => {
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    const { disk } = await fleet.createDisk("x", { sizeBytes: 1, labels: [{ name: "a", value: "1" }] });
    const labelsEtag = disk?.labelsEtag ?? "";
    const set = (value: string, etag: string) =>
      operator.setDiskLabels({ diskId: "x", labels: [{ name: "a", value }], labelsEtag: etag });
    const { disk: second } = await set("2", labelsEtag);
    expect(second?.labelsEtag)
      .to.match(/^[0-9a-f]{16}$/)
      .and.not.equal(labelsEtag);
    await rejection(set("3", labelsEtag), AbortedError, "the labels of disk x have changed");
    expect((await operator.getDisk({ diskId: "x" })).disk).to.deep.equal(second);
    await set("3", "");
  });

  it("a disk is created on erased devices, published, fenced, freed dirty, and erased under a higher session", async () => {
    const one = await fleet.readyAgent("h1", ["d1"]);
    const two = await fleet.readyAgent("h2", ["d2"]);
    const erased = one.sessions.get("d1")?.sessionNumber ?? 0;
    expect(erased, "the first erase had its own session").to.be.above(0);

    const { disk } = await fleet.createDisk("x", {
      sizeBytes: 100 * MIB_BYTES,
      labels: [{ name: "app", value: "db" }],
    });
    expect(disk).to.deep.include({
      sizeBytes: 128 * MIB_BYTES,
      requestedSizeBytes: 100 * MIB_BYTES,
      health: "HEALTH_ONLINE",
    });
    expect(devicesWithBytes(disk)).to.have.members(["d1", "d2"]);
    expect(devicesWithBytes((await fleet.createDisk("x", { sizeBytes: 100 * MIB_BYTES })).disk)).to.deep.equal(
      devicesWithBytes(disk),
    );
    await rejection(fleet.createDisk("x", { sizeBytes: 1 }), AlreadyExistsError);

    const published = (await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h2" })).disk?.publication;
    expect(published).to.include({ state: PublicationState.PUBLISHED, hostId: "h2", exportPath: "/run/x.sock" });
    const session = published?.sessionNumber ?? 0;
    expect(session).to.be.above(erased);
    for (const granted of [one.sessions.get("d1"), two.sessions.get("d2")]) {
      expect(granted).to.deep.include({ sessionNumber: session, holderHostId: "h2" });
    }
    expect(two.exports.get("x")).to.equal(session);
    expect(
      (await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h2" })).disk?.publication?.sessionNumber,
    ).to.equal(session);
    await rejection(fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h1" }), InvalidStateError);
    await rejection(fleet.registry.operator.deleteDisk({ diskId: "x" }), InvalidStateError);
    expect((await fleet.registry.operator.listDisks({ hostId: "h2" })).disks.map((d) => d.diskId)).to.deep.equal(["x"]);

    expect(
      (await fleet.registry.operator.unpublishDisk({ diskId: "x", hostId: "h1" })).disk?.publication?.hostId,
    ).to.equal("h2");
    expect((await fleet.registry.operator.unpublishDisk({ diskId: "x" })).disk?.publication).to.equal(undefined);
    const fence = one.sessions.get("d1");
    expect(fence?.holderHostId).to.equal("");
    expect(fence?.sessionNumber).to.be.above(session);
    expect(two.exports.has("x")).to.equal(false);

    await fleet.registry.operator.deleteDisk({ diskId: "x" });
    await fleet.registry.operator.deleteDisk({ diskId: "x" });
    await fleet.clean("d1", "d2");
    expect(one.sessions.get("d1")?.sessionNumber).to.be.above(fence?.sessionNumber ?? 0);
    expect((await fleet.registry.device("d1")).diskId).to.equal("");
  });

  it("a holder gets a key of its session for each other host, the same in each try, and another from the next leader", async () => {
    const { operator } = fleet.registry;
    const [one, two] = [await fleet.readyAgent("h1", ["d1"]), await fleet.readyAgent("h2", ["d2"])];
    await fleet.createDisk("x", { sizeBytes: 100 * MIB_BYTES });
    const three = await fleet.readyAgent("h3", ["d3"]);
    const keysAtDevices = () => [one.sessionKeys.get("d1"), two.sessionKeys.get("d2")];
    const keysAtHolder = (holder: typeof three) => ["d1", "d2"].map((id) => holder.extents.get(id)?.sessionKey);
    const tries: unknown[] = [];
    three.beforeExport = async () => {
      tries.push(keysAtDevices());
      if (tries.length === 1) throw new UnavailableError("busy");
    };
    await operator.publishDisk({ diskId: "x", hostId: "h3" }, { deadlineMs: 60_000 });
    const first = keysAtHolder(three);
    expect(tries, "the same keys in both tries").to.deep.equal([first, first]);
    for (const key of first) expect(key).to.match(/^[0-9a-f]{64}$/);
    expect(first[0], "each host has a key of its own").not.to.equal(first[1]);
    expect(three.extents.get("d1")?.blockAddress).to.equal("h1:7041");
    const orders = three.told.length;
    await operator.setDiskLimits({ diskId: "x", limits: { readIops: 100 } });
    await eventually(() => expect(three.told).to.have.lengthOf.above(orders));
    expect(keysAtDevices(), "a change of limits opens no session").to.deep.equal(first);

    await operator.unpublishDisk({ diskId: "x" });
    expect(keysAtDevices(), "a session without a holder has no key").to.deep.equal(["", ""]);
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    expect(keysAtDevices()).to.deep.equal(["", keysAtHolder(one)[1]]);
    expect(one.extents.get("d1"), "devices of the holder's host").to.deep.equal({ blockAddress: "", sessionKey: "" });
    expect([...first, ""]).not.to.include(keysAtHolder(one)[1]);

    await operator.unpublishDisk({ diskId: "x" });
    const reached = new Promise<void>((resolve) => {
      three.beforeExport = async () => {
        resolve();
        throw new UnavailableError("busy");
      };
    });
    const lost = operator.publishDisk({ diskId: "x", hostId: "h3" }).catch(() => {});
    await reached;
    const ofFormerLeader = keysAtDevices();
    await fleet.registry.process.kill();
    await lost;
    three.beforeExport = async () => {};
    await fleet.registry.process.start();
    await eventually(async () =>
      expect((await fleet.registry.disk("x")).publication?.state).to.equal(PublicationState.PUBLISHED),
    );
    expect(keysAtHolder(three)).to.deep.equal(keysAtDevices());
    for (const key of keysAtHolder(three)) expect(ofFormerLeader).not.to.include(key);
    const keys = [...first, ...ofFormerLeader, ...keysAtHolder(three), keysAtHolder(one)[1]];
    for (const key of keys) expect(fleet.registry.process.logs).not.to.include(key);
  });

  it("a host with all the devices gets one order each way, an agent of a former release separate steps", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await fleet.readyAgent("h2", ["d2"]);
    await fleet.createDisk("x", { hostId: "h1" });
    const publishAndBack = async () => {
      agent.told.length = 0;
      const { disk } = await operator.publishDisk({ diskId: "x", hostId: "h1" });
      const session = disk?.publication?.sessionNumber;
      expect(agent.sessions.get("d1")).to.deep.include({ sessionNumber: session, holderHostId: "h1" });
      expect(agent.exports.get("x")).to.equal(session);
      await operator.unpublishDisk({ diskId: "x" });
      expect(agent.sessions.get("d1")?.holderHostId).to.equal("");
      expect(agent.sessions.get("d1")?.sessionNumber).to.be.above(session ?? 0);
      return [...agent.told];
    };
    expect(await publishAndBack()).to.deep.equal(["export x, open d1", "unexport x, open d1"]);
    agent.opensNothingAlong = true;
    const asked = ["export x, open d1", "open d1", "export x, open "];
    expect(await publishAndBack()).to.deep.equal([...asked, "unexport x, open d1", "open d1"]);
    agent.opensNothingAlong = false;
    agent.told.length = 0;
    await operator.publishDisk({ diskId: "x", hostId: "h2" });
    await operator.unpublishDisk({ diskId: "x" });
    expect(agent.told).to.deep.equal(["open d1", "open d1"]);
  });

  it("a disk is published to the host of a VM by the VM's id, and unpublished from that VM only", async () => {
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.readyAgent("h2", []);
    await fleet.createDisk("x");
    await operator.assignHost({ vmCid: "vm-1", diskIds: ["x"] });
    await operator.assignHost({ vmCid: "vm-2" });
    const { disk } = await operator.publishDisk({ diskId: "x", vmCid: "vm-1" });
    expect(disk?.publication).to.deep.include({ hostId: "h1", state: PublicationState.PUBLISHED });
    const elsewhere = await rejection(operator.unpublishDisk({ diskId: "x", vmCid: "vm-2" }), InvalidStateError);
    expect(elsewhere.about).to.deep.include({ disk_id: "x", vm_cid: "vm-2" });
    expect((await fleet.registry.disk("x")).publication?.hostId).to.equal("h1");
    expect((await operator.unpublishDisk({ diskId: "x", vmCid: "vm-1" })).disk?.publication).to.equal(undefined);
    for (const ask of [operator.publishDisk, operator.unpublishDisk]) {
      expect((await rejection(ask({ diskId: "x", vmCid: "vm-9" }), NotFoundError)).about.vm_cid).to.equal("vm-9");
      await rejection(ask({ diskId: "x", vmCid: "vm-1", hostId: "h1" }), InvalidArgumentError, "both given");
    }
    await rejection(operator.unpublishDisk({ diskId: "x", vmCid: "vm-1" }), InvalidStateError, "not published");
  });

  it("an export that is not wanted is ended at registration", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    agent.exports.set("ghost", 3);
    await agent.register();
    await eventually(() => expect(agent.exports.has("ghost")).to.equal(false));
  });

  it("a session that an agent calls outdated is replaced by a newer one", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x");
    // The agent must not report its errors in a heartbeat.
    agent.stopHeartbeats();
    const seen = (agent.sessions.get("d1")?.sessionNumber ?? 0) + 4;
    agent.sessions.set("d1", { sessionNumber: seen, holderHostId: "" });
    const { disk } = await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h1" });
    expect(disk?.publication?.state).to.equal(PublicationState.PUBLISHED);
    expect(disk?.publication?.sessionNumber).to.be.at.least(seen);
    expect(agent.sessions.get("d1")?.sessionNumber).to.equal(disk?.publication?.sessionNumber);
  });

  it("a failed or outdated erase is retried under a new session, and shows its error", async () => {
    const agent = await fleet.registry.agent("h1", ["d1"]);
    agent.beforeErase = async () => {
      throw new DeviceIoError("EIO on /dev/d1");
    };
    await agent.register();
    await fleet.add();
    await eventually(async () =>
      expect((await fleet.registry.device("d1")).lastError).to.contain("erase: EIO on /dev/d1"),
    );
    const before = agent.sessions.get("d1")?.sessionNumber ?? 0;
    let outdated = 2;
    agent.beforeErase = async () => (outdated-- > 0 ? OrderOutcome.OUTDATED : undefined);
    await fleet.clean("d1");
    expect(agent.sessions.get("d1")?.sessionNumber).to.be.above(before + 1);
    expect((await fleet.registry.device("d1")).lastError).to.equal("");
  });
});
