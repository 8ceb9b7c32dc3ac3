import { createHash } from "node:crypto";
import { LabelState, OrderOutcome, RememberedRun } from "@diskmesh/api/internal";
import { AttachState, DeviceLabelState } from "@diskmesh/api/registry";
import { MIB_BYTES as MIB } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { refused } from "./testing/calls.js";
import { SharedRegistry } from "./testing/shared-registry.js";

const HEAD = 64 * 1_024;

describe("disk-registry and agents that know runs", () => {
  const fleet = SharedRegistry.forAllTests();

  async function agentWithSlices(sliceBytes = 0) {
    const agent = await fleet.registry.agent("h1", ["d1"]);
    await agent.register({ knowsRuns: true });
    agent.startHeartbeats(50);
    await fleet.registry.operator.addHost({ hostId: "h1", sliceBytes });
    await fleet.inState("d1", AttachState.ATTACHED);
    await fleet.clean("d1");
    return agent;
  }

  it("divide a device once it is erased and the agent has forgotten the erase, and serve and fence runs of slices", async () => {
    const agent = await agentWithSlices();
    await eventually(async () => expect(agent.told).to.deep.equal(["close d1"]));
    expect((await fleet.registry.device("d1")).sliceBytes).to.equal(MIB);
    const { operator } = fleet.registry;
    await fleet.createDisk("a");
    const { disk } = await fleet.createDisk("b", { sizeBytes: 3 * MIB });
    expect(disk?.sizeBytes).to.equal(3 * MIB);
    await operator.publishDisk({ diskId: "b", hostId: "h1" });
    await operator.unpublishDisk({ diskId: "b" });
    await operator.deleteDisk({ diskId: "b" });
    await eventually(async () =>
      expect(agent.told.slice(1)).to.deep.equal([
        "export b, open d1 2112+4096",
        "unexport b, open d1 2112+4096",
        "close d1 2112+4096",
      ]),
    );
    await fleet.clean("d1");
    expect(agent.recorded).to.deep.equal([
      "b on d1: 0 of 1, layout 0",
      "b on d1: 0 of 1, layout 0, clean, without holder",
    ]);
  });

  it("have the records of a fence untouched, and those of a grown disk say so", async () => {
    const agent = await agentWithSlices();
    const { operator } = fleet.registry;
    await fleet.createDisk("a");
    await operator.publishDisk({ diskId: "a", hostId: "h1" });
    await operator.resizeDisk({ diskId: "a", sizeBytes: 3 * MIB });
    await eventually(() =>
      expect(agent.recorded).to.deep.equal(["a on d1: 0 of 1, layout 0", "a on d1: 0 of 1, layout 1"]),
    );
    await operator.fenceHost({ hostId: "h1" });
    await eventually(async () => expect((await fleet.registry.disk("a")).publication).to.equal(undefined));
    expect(agent.recorded).to.have.length(2);
  });

  it("record that the target of a copy counts before its source is freed", async () => {
    const source = await agentWithSlices();
    const { operator } = fleet.registry;
    await fleet.createDisk("a");
    const target = await fleet.registry.agent("h2", ["d2"]);
    await target.register({ knowsRuns: true });
    target.startHeartbeats(50);
    await operator.addHost({ hostId: "h2", sliceBytes: MIB });
    await fleet.inState("d2", AttachState.ATTACHED);
    await fleet.clean("d2");
    target.copying = { outcome: OrderOutcome.DONE, copiedBytes: MIB };
    source.closing = OrderOutcome.PENDING;
    await operator.migrateDisk({ diskId: "a", hostId: "h2" });
    await eventually(() =>
      expect(target.recorded).to.deep.equal([
        "a on d2: no part of 1, layout 0, clean",
        "a on d2: 0 of 1, layout 1, clean",
      ]),
    );
    expect(source.recorded).to.deep.equal(["a on d1: 0 of 1, layout 0, clean"]);
    source.closing = OrderOutcome.DONE;
    await fleet.clean("d1");
  });

  it("label a device once it is erased, and remove the label before the device leaves, unless its data is kept", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.registry.agent("h1", ["d1", "d2", "old", "used"]);
    const states = { old: LabelState.UNSPECIFIED, used: LabelState.USERS };
    agent.report = (device) => ({
      ...device,
      labelState: states[device.deviceId as keyof typeof states] ?? LabelState.NONE,
    });
    agent.labelling = OrderOutcome.IO_ERROR;
    await agent.register({ knowsRuns: true });
    agent.startHeartbeats(50);
    expect((await fleet.registry.device("used")).labelState).to.equal(DeviceLabelState.USERS);
    await operator.addHost({ hostId: "h1" });
    const told = (text: string) => agent.told.filter((each) => each === text).length;
    await eventually(() => expect(told("label d1")).to.be.at.least(2));
    expect(agent.told.indexOf("close d1")).to.be.within(0, agent.told.indexOf("label d1"));
    agent.labelling = OrderOutcome.DONE;
    for (const id of ["d1", "d2", "used"])
      await eventually(async () => expect((await fleet.registry.device(id)).labelId).to.have.length(32));
    expect(told("label old")).to.equal(0);
    const left = async (id: string, keepData: boolean) =>
      eventually(async () => {
        const { result } = await operator.removeDevice({ deviceId: id, keepData });
        expect(result?.code).to.equal("ACTION_CODE_S_OK");
      });
    await left("d1", false);
    await left("d2", true);
    expect([told("remove the label of d1"), told("remove the label of d2")]).to.deep.equal([1, 0]);
  });

  it("ask about a label that is being written until it is written, and begin another write after a failure", async () => {
    const { operator } = fleet.registry;
    const agent = await fleet.registry.agent("h1", ["d1"]);
    agent.report = (device) => ({ ...device, labelState: LabelState.NONE });
    const tries = () => new Set(agent.labelled).size;
    agent.labelling = OrderOutcome.PENDING;
    await agent.register({ knowsRuns: true });
    agent.startHeartbeats(50);
    await operator.addHost({ hostId: "h1" });
    await eventually(() => expect(agent.labelled).to.have.length.above(2));
    expect(tries()).to.equal(1);
    agent.labelling = OrderOutcome.IO_ERROR;
    await eventually(() => expect(tries()).to.equal(2));
    agent.labelling = OrderOutcome.DONE;
    await eventually(async () => {
      const { labelId } = await fleet.registry.device("d1");
      expect(agent.labelled.at(-1))
        .to.match(new RegExp(` ${labelId}$`))
        .and.have.length.above(32);
    });
  });

  it("free erased slices only once the agent has forgotten the erase, and erase them once", async () => {
    const agent = await agentWithSlices();
    let erases = 0;
    agent.beforeErase = async () => void erases++;
    agent.closing = OrderOutcome.PENDING;
    await fleet.createDisk("a");
    await fleet.registry.operator.deleteDisk({ diskId: "a" });
    await eventually(async () => {
      const { dirty, lastError } = await fleet.registry.device("d1");
      expect({ dirty, lastError }).to.deep.equal({
        dirty: true,
        lastError: "erase: the erased run is not forgotten: PENDING",
      });
    });
    agent.closing = OrderOutcome.DONE;
    await fleet.clean("d1");
    expect(erases).to.equal(1);
  });

  it("take the slice size from the request, and refuse one that is none", async () => {
    await agentWithSlices(4 * MIB);
    const { operator } = fleet.registry;
    expect((await fleet.registry.device("d1")).sliceBytes).to.equal(4 * MIB);
    await refused(operator.addHost({ hostId: "h1", sliceBytes: 3 * MIB }), "InvalidStateError", "power of two");
  });

  it("give a holder no other key of a run that it has when another run of the device is added", async () => {
    await agentWithSlices();
    await eventually(async () => expect((await fleet.registry.device("d1")).sliceBytes).to.equal(MIB));
    const holder = await fleet.readyAgent("h2", []);
    const { operator } = fleet.registry;
    await fleet.createDisk("a", { hostId: "h1", sizeBytes: 2 * MIB - HEAD });
    await fleet.createDisk("b", { hostId: "h1" });
    await operator.publishDisk({ diskId: "a", hostId: "h2" });
    const reached: boolean[][] = [];
    holder.beforeExport = async ({ extents }) => {
      reached.push(extents.map(({ blockAddress, sessionKey }) => blockAddress !== "" && sessionKey.length > 0));
    };
    await operator.resizeDisk({ diskId: "a", sizeBytes: 3 * MIB });
    await eventually(() => expect(reached.at(-1)).to.deep.equal([false, true]));
  });

  it("list the disks of a device and of a host by pages, and count what a device has", async () => {
    await agentWithSlices();
    await eventually(async () => expect((await fleet.registry.device("d1")).sliceBytes).to.equal(MIB));
    await fleet.readyAgent("h2", ["d2"]);
    const { operator } = fleet.registry;
    for (const id of ["a", "b", "c"]) await fleet.createDisk(id, { hostId: "h1" });
    await fleet.createDisk("e", { hostId: "h2" });
    await operator.publishDisk({ diskId: "b", hostId: "h2" });
    const { sizeBytes, diskCount, freeBytes } = await fleet.registry.device("d1");
    expect({ diskCount, freeBytes }).to.deep.equal({ diskCount: 3, freeBytes: sizeBytes - MIB * 7 });
    const ids = async (filter: object): Promise<string> => {
      const found: string[] = [];
      for (let pageToken: string | undefined; pageToken !== ""; ) {
        const page = await operator.listDisks({ ...filter, pageSize: 2, pageToken });
        found.push(...page.disks.map(({ diskId }) => diskId));
        pageToken = page.nextPageToken;
      }
      return found.join(" ");
    };
    expect(await ids({ deviceId: "d1" })).to.equal("a b c");
    expect(await ids({ deviceHostId: "h2" })).to.equal("e");
    expect(await ids({ deviceHostId: "h1", hostId: "h2" })).to.equal("b");
    expect(await ids({ deviceHostId: "h2", deviceId: "d1" })).to.equal("");
  });

  it("read what an agent remembers by pages where its digest is another, and wait for that", async () => {
    const agent = await agentWithSlices();
    const { operator } = fleet.registry;
    await fleet.createDisk("a");
    await operator.publishDisk({ diskId: "a", hostId: "h1" });
    await operator.unpublishDisk({ diskId: "a" });
    const runs = [
      RememberedRun.fromPartial({ offsetBytes: HEAD, sizeBytes: MIB, sessionNumber: 1 }),
      RememberedRun.fromPartial({ offsetBytes: HEAD + 8 * MIB, sizeBytes: MIB, sessionNumber: 5_000, diskId: "lost" }),
    ];
    const lines = runs.map((run) => `${run.offsetBytes} ${run.sizeBytes} ${run.sessionNumber} ${run.diskId}\n`);
    const runsDigest = createHash("sha256").update(lines.join("")).digest("hex");
    agent.report = (device) => ({ ...device, sessionNumber: 5_000, sessionDiskId: "lost", runsDigest });
    agent.runs.set("d1", runs);
    const { bootId } = agent;
    agent.bootId = "another";
    await refused(agent.register({ knowsRuns: true, bootId }), "UnavailableError", "was restarted while it registered");
    agent.bootId = bootId;
    agent.beforeListRuns = () => operator.deleteDisk({ diskId: "a" });
    await refused(agent.register({ knowsRuns: true }), "AbortedError", "the runs of device d1 changed");
    await agent.register({ knowsRuns: true });
    expect((await fleet.registry.device("d1")).unknownSession).to.include({ sessionNumber: 5_000, diskId: "lost" });
  });
});
