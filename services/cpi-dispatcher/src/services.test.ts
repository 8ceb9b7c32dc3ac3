import type { CpiCall } from "@diskmesh/cpi";
import { cpiContract, MemoryCpi, OPTIONAL_IN_MEMORY, RemoteCpi, reasonOfFailed } from "@diskmesh/cpi/testing";
import { type TestCertificates, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { OfferedCpi } from "./cpis/cpi-set.js";
import { type CpiClient, contextOf, TestDispatcher } from "./testing/test-dispatcher.js";

class MemoryDispatcher extends TestDispatcher {
  readonly memory: MemoryCpi;
  readonly other: MemoryCpi;

  constructor(certificates: TestCertificates) {
    const [memory, other] = [new MemoryCpi(), new MemoryCpi()];
    super(certificates, [new OfferedCpi("memory", "memory", memory), new OfferedCpi("another", "memory", other)]);
    this.memory = memory;
    this.other = other;
  }
}

cpiContract("in memory, through the dispatcher", async () => {
  const dispatcher = await new MemoryDispatcher(await testCertificates()).start();
  const cpi = new RemoteCpi(dispatcher.client("director"), { cpi: "memory" });
  return { cpi, az: "z1", optional: OPTIONAL_IN_MEMORY, close: () => dispatcher.close() };
});

describe("CpiService", () => {
  let certificates: TestCertificates;
  let dispatcher: MemoryDispatcher;
  let director: CpiClient;

  before(async () => {
    certificates = await testCertificates({ hostIds: ["host-1"] });
  });

  beforeEach(async () => {
    dispatcher = await new MemoryDispatcher(certificates).start();
    director = dispatcher.client("director");
  });

  afterEach(async () => {
    await dispatcher.close();
  });

  it("lists its CPIs in order of name", async () => {
    expect((await director.listCpis({ context: contextOf(1) })).cpis).to.deep.equal([
      {
        name: "another",
        type: "memory",
        apiVersion: 2,
        stemcellFormats: [],
        lastError: "",
        azs: [],
        directorId: "",
      },
      {
        name: "memory",
        type: "memory",
        apiVersion: 2,
        stemcellFormats: [],
        lastError: "",
        azs: [],
        directorId: "",
      },
    ]);
  });

  it("uses the first CPI by default, another by name, and refuses an unknown name", async () => {
    const vmCid = "vm-x";
    await director.hasVm({ context: contextOf(1), vmCid });
    await director.hasVm({ context: contextOf(1, { cpi: "another" }), vmCid });
    expect([dispatcher.memory.calls.length, dispatcher.other.calls.length]).to.deep.equal([1, 1]);
    expect(await reasonOfFailed(director.hasVm({ context: contextOf(1, { cpi: "nobody" }), vmCid }))).to.equal(
      "CPI_UNUSABLE",
    );
  });

  it("forwards the caller and the deadline", async () => {
    await director.hasVm(
      { context: { ...contextOf(1), stemcellApiVersion: 3 }, vmCid: "vm-x" },
      { deadlineMs: 60_000 },
    );
    const [call] = dispatcher.memory.calls;
    expect(call).to.include({ requestId: "r1", directorId: "d1", stemcellApiVersion: 3 });
    expect((call as CpiCall).deadlineAtMs - Date.now()).to.be.within(30_000, 60_000);
  });

  it("stringifies hints", async () => {
    const [vm, disk] = [
      await director.createVm({ ...emptyVm, context: contextOf(1), agentId: "a1" }),
      await director.createDisk({ ...emptyDisk, context: contextOf(1), sizeMib: 1, az: "z1" }),
    ];
    const attached = await director.attachDisk({ context: contextOf(1), vmCid: vm.vmCid, diskCid: disk.diskCid });
    expect(attached.diskHint).to.deep.equal({ path: `/memory/${disk.diskCid}`, lun: "3" });
  });

  describe("fencing", () => {
    it("refuses calls of lower generations as OUTDATED", async () => {
      await director.fence({ directorId: "d1", directorGeneration: 5 });
      expect(await reasonOfFailed(director.hasVm({ context: contextOf(4), vmCid: "v" }))).to.equal("OUTDATED");
      expect(await reasonOfFailed(director.fence({ directorId: "d1", directorGeneration: 4 }))).to.equal("OUTDATED");
      expect(await director.hasVm({ context: contextOf(5), vmCid: "v" })).to.include({ exists: false });
    });

    it("needs a director's id", async () => {
      const vmCid = "v";
      const contexts = [
        undefined,
        contextOf(0),
        contextOf(-1),
        { ...contextOf(1), directorId: "" },
        { ...contextOf(1), directorId: "../x" },
      ];
      for (const context of contexts)
        expect(await reasonOfFailed(director.hasVm({ context, vmCid })), JSON.stringify(context)).to.equal(
          "INVALID_ARGUMENT",
        );
      expect(await reasonOfFailed(director.fence({ directorId: "d1", directorGeneration: 0 }))).to.equal(
        "INVALID_ARGUMENT",
      );
    });
  });

  it("lets operators call read-only methods without a fence, and no others", async () => {
    const operator = dispatcher.client("operator");
    await director.fence({ directorId: "d1", directorGeneration: 5 });
    expect((await operator.info({})).apiVersion).to.equal(2);
    expect((await operator.listCpis({})).cpis).to.have.length(2);
    expect(await operator.hasVm({ vmCid: "v" })).to.include({ exists: false });
    expect(await operator.hasDisk({ diskCid: "d" })).to.include({ exists: false });
    expect(await reasonOfFailed(operator.getDisks({ vmCid: "v" }))).to.equal("VM_NOT_FOUND");
    const context = undefined;
    const denied: Record<string, () => Promise<unknown>> = {
      createVm: () => operator.createVm({ ...emptyVm, context, agentId: "a" }),
      deleteVm: () => operator.deleteVm({ context, vmCid: "v" }),
      createDisk: () => operator.createDisk({ ...emptyDisk, context, sizeMib: 1, az: "z1" }),
      deleteDisk: () => operator.deleteDisk({ context, diskCid: "d" }),
      attachDisk: () => operator.attachDisk({ context, vmCid: "v", diskCid: "d" }),
      detachDisk: () => operator.detachDisk({ context, vmCid: "v", diskCid: "d" }),
      setDiskMetadata: () => operator.setDiskMetadata({ context, diskCid: "d", metadata: {} }),
      fence: () => operator.fence({ directorId: "d1", directorGeneration: 9 }),
    };
    for (const [method, call] of Object.entries(denied))
      expect(await reasonOfFailed(call()), method).to.equal("PERMISSION_DENIED");
  });

  for (const role of ["disk-registry", "disk-agent-host-1", "cpi-dispatcher"])
    it(`is refused for ${role}`, async () => {
      const stranger = dispatcher.client(role);
      expect(await reasonOfFailed(stranger.listCpis({ context: contextOf(1) }))).to.equal("PERMISSION_DENIED");
      expect(await reasonOfFailed(stranger.hasVm({ context: contextOf(1), vmCid: "v" }))).to.equal("PERMISSION_DENIED");
    });

  it("refuses malformed requests", async () => {
    const context = contextOf(1);
    const calls: Record<string, () => Promise<unknown>> = {
      "an empty vm_cid": () => director.hasVm({ context }),
      "a long vm_cid": () => director.hasVm({ context, vmCid: "x".repeat(10_240) }),
      "a vm_cid with NUL": () => director.hasVm({ context, vmCid: "a\0" }),
      "a disk_cid with a line feed": () => director.hasDisk({ context, diskCid: "a\nb" }),
      "an agent_id that is a path": () => director.createVm({ ...emptyVm, context, agentId: "../a" }),
      "a token that is a path": () => director.createDisk({ ...emptyDisk, context, sizeMib: 1, token: "../a" }),
      "a negative size": () => director.createDisk({ ...emptyDisk, context, sizeMib: -1, az: "z1" }),
      "a size of 2^63": () => director.createDisk({ ...emptyDisk, context, sizeMib: 2 ** 63, az: "z1" }),
      "a malformed az": () => director.createVm({ ...emptyVm, context, agentId: "a", az: "\0" }),
      "a malformed request_id": () => director.hasVm({ context: { ...context, requestId: "a b" }, vmCid: "v" }),
    };
    for (const [what, call] of Object.entries(calls))
      expect(await reasonOfFailed(call()), what).to.equal("INVALID_ARGUMENT");
  });
});

const emptyVm = { cloudProperties: {}, networks: {}, env: {} };
const emptyDisk = { cloudProperties: {} };
