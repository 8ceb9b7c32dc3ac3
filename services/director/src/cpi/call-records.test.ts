import { join } from "node:path";
import { silentLogger, UnavailableError } from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type DirectorTablet, storedSchema } from "../store/stored-schema.js";
import { CallRecords } from "./call-records.js";
import type { Dispatcher } from "./dispatchers.js";

describe("records of CPI calls", () => {
  const folder = join(temporaryFolder(), "state");
  const open = () =>
    Tablet.open({ name: "director", schema: storedSchema, storage: openStorage(folder, "director"), address: "" });
  let tablet: DirectorTablet;
  let records: CallRecords;
  /** The calls that the test's dispatchers were asked to end. `refusal` is their answer. */
  const asked: string[] = [];
  let refusal: Error | undefined;
  const dispatcher = (address: string) =>
    ({
      address,
      client: {
        endCalls: async ({ callId }: { callId: string }) => {
          asked.push(`${callId} at ${address}`);
          if (refusal !== undefined) throw refusal;
          return { calls: 1 };
        },
      },
    }) as unknown as Dispatcher;
  const [a, b] = [dispatcher("a"), dispatcher("b")];

  const reopened = async (addresses: readonly string[] = ["a", "b"]) => {
    await tablet?.close();
    tablet = await open();
    records = new CallRecords({ tablet, addresses, endTimeoutMs: 1_000, clock: new ManualClock(), log: silentLogger });
    await records.start();
  };
  const begin = (at: Dispatcher, callId: string, method: string, request: object) =>
    records.begin(at, { callId, taskId: 7, requestId: "task-7", method, request });
  const recorded = () => tablet.read((tables) => [...tables.cpiCalls.entries()].map(({ callId }) => callId));
  const forgetAll = () =>
    tablet.transact((tx) => {
      for (const { callId } of [...tx.cpiCalls.entries()]) tx.cpiCalls.delete(callId);
    });

  beforeEach(async () => {
    asked.length = 0;
    refusal = undefined;
    await reopened();
  });
  afterEach(() => forgetAll());
  after(() => tablet.close());

  it("a call with a waiting caller -> blocks no other call; its record is deleted after its end", async () => {
    await begin(a, "1", "attachDisk", { diskCid: "d", vmCid: "v" });
    await begin(b, "2", "detachDisk", { diskCid: "d", vmCid: "v" });
    expect(await recorded()).to.have.members(["1", "2"]);
    records.end("1");
    await eventually(async () => expect(await recorded()).to.deep.equal(["2"]));
    await records.settle(b);
    expect(asked).to.deep.equal([]);
    records.end("2");
    await begin(b, "3", "deleteDisk", { diskCid: "d" });
    expect(await recorded(), "what has ended went with the next").to.deep.equal(["3"]);
    records.end("3");
  });

  it("a read-only call -> not recorded", async () => {
    expect(await begin(a, "1", "hasVm", { vmCid: "v" })).to.equal(false);
    expect(await recorded()).to.deep.equal([]);
  });

  it("an abandoned call -> blocks changes of the same objects until its dispatcher confirms its end", async () => {
    await begin(a, "1", "attachDisk", { diskCid: "d", vmCid: "v" });
    records.abandon("1");
    const held = await rejection(
      begin(b, "2", "deleteVm", { vmCid: "v" }),
      UnavailableError,
      "may still run attachDisk",
    );
    expect(held.outcome).to.equal("not_done");
    await begin(b, "3", "deleteVm", { vmCid: "w" });
    records.end("3");
    await records.settle(b);
    refusal = new UnavailableError("starting");
    await rejection(records.settle(a), UnavailableError);
    await rejection(begin(b, "4", "deleteDisk", { diskCid: "d" }), UnavailableError);
    refusal = undefined;
    await records.settle(a);
    expect(asked).to.deep.equal(["1 at a", "1 at a"]);
    expect(await recorded()).to.not.include("1");
    await begin(b, "5", "deleteVm", { vmCid: "v" });
    records.end("5");
  });

  it("a former director's call -> blocks, too, until its dispatcher accepts this director", async () => {
    await begin(a, "1", "deleteDisk", { diskCid: "d" });
    await reopened();
    await rejection(begin(b, "2", "attachDisk", { diskCid: "d", vmCid: "v" }), UnavailableError);
    await records.settle(a);
    expect(asked).to.deep.equal([]);
    expect(await recorded()).to.deep.equal([]);
  });

  it("a call at a dispatcher that is no longer configured -> counts as ended", async () => {
    await begin(a, "1", "deleteDisk", { diskCid: "d" });
    await begin(b, "2", "deleteDisk", { diskCid: "e" });
    await reopened(["b", "c"]);
    expect(await recorded()).to.deep.equal(["2"]);
  });

  describe("with one dispatcher", () => {
    it("a call with a waiting caller -> not recorded; an abandoned call is recorded and blocks", async () => {
      await reopened(["a"]);
      await begin(a, "1", "attachDisk", { diskCid: "d", vmCid: "v" });
      await begin(a, "2", "deleteDisk", { diskCid: "e" });
      expect(await recorded()).to.deep.equal(["all"]);
      records.end("2");
      records.abandon("1");
      await rejection(begin(a, "3", "deleteVm", { vmCid: "v" }), UnavailableError, "may still run attachDisk");
      expect(await recorded()).to.have.members(["all", "1"]);
      await records.settle(a);
      expect(asked).to.deep.equal(["1 at a"]);
      await begin(a, "4", "deleteVm", { vmCid: "v" });
      expect(await recorded()).to.deep.equal(["all"]);
    });

    it("the next director has a second dispatcher -> used only once the first accepts this director", async () => {
      await reopened(["a"]);
      await begin(a, "1", "attachDisk", { diskCid: "d", vmCid: "v" });
      await reopened(["b", "a"]);
      const early = begin(b, "2", "deleteVm", { vmCid: "w" });
      await rejection(early, UnavailableError, "dispatcher a may still run unrecorded calls of an earlier director");
      await begin(a, "3", "deleteVm", { vmCid: "w" });
      await records.settle(a);
      expect(asked).to.deep.equal([]);
      await begin(b, "4", "deleteVm", { vmCid: "x" });
      expect(await recorded()).to.have.members(["3", "4"]);
    });

    it("the next director has another dispatcher instead -> the calls at the first count as ended", async () => {
      await reopened(["a"]);
      await reopened(["b"]);
      await begin(b, "1", "deleteVm", { vmCid: "w" });
      expect(await tablet.read(({ cpiCalls }) => cpiCalls.get("all")?.dispatcher)).to.equal("b");
    });
  });
});
