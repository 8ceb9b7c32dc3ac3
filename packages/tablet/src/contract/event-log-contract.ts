import { InvalidArgumentError, ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { EventLog, RecordRange } from "../storage/storage.js";

/** Place of one event log. The contract calls `open` again only after it has closed the former log. */
export interface EventLogLocation {
  open(): EventLog;
  remove(): Promise<void>;
}

/** Registers a mocha suite with the contract of every EventLog. */
export function eventLogContract(name: string, makeLocation: () => Promise<EventLogLocation>): void {
  describe(`event log contract: ${name}`, () => {
    let location: EventLogLocation;
    let log: EventLog;

    beforeEach(async () => {
      location = await makeLocation();
      log = location.open();
    });

    afterEach(async () => {
      await log.close();
      await location.remove();
    });

    const all = { from: 0, limit: 10_000 };

    it("returns lines in order, also after a reopen", async () => {
      const lines = ["first", "", "Zürich \u{1f4be}", '{"json":true}', "two\nlines", "x".repeat(2 ** 20)];
      expect(await log.append("task-1", lines.slice(0, 2))).to.equal(2);
      expect(await log.append("task-1", lines.slice(2))).to.equal(6);
      await log.close();
      log = location.open();
      expect(await log.read("task-1", all)).to.deep.equal({ lines, next: 6 });
      expect(await log.append("task-1", ["more"])).to.equal(7);
    });

    it("pages", async () => {
      await log.append("s", ["a", "b", "c", "d", "e"]);
      expect(await log.read("s", { from: 0, limit: 2 })).to.deep.equal({ lines: ["a", "b"], next: 2 });
      expect(await log.read("s", { from: 2, limit: 2 })).to.deep.equal({ lines: ["c", "d"], next: 4 });
      expect(await log.read("s", { from: 4, limit: 2 })).to.deep.equal({ lines: ["e"], next: 5 });
      expect(await log.read("s", { from: 5, limit: 2 })).to.deep.equal({ lines: [], next: 5 });
      expect(await log.read("s", { from: 3, limit: 0 })).to.deep.equal({ lines: [], next: 3 });
    });

    it("keeps streams apart whose names have a common prefix", async () => {
      const streams = ["a", "a-b", "a.b", "a/b", "aa", "A", "a:b", `a${"x".repeat(199)}`];
      for (const stream of streams) await log.append(stream, [`of ${stream}`, "second"]);
      for (const stream of streams) {
        expect(await log.read(stream, all)).to.deep.equal({ lines: [`of ${stream}`, "second"], next: 2 });
      }
      await log.drop("a");
      expect(await log.read("a", all)).to.deep.equal({ lines: [], next: 0 });
      for (const stream of streams.slice(1)) expect((await log.read(stream, all)).next).to.equal(2);
    });

    it("counts correctly with many concurrent appends", async () => {
      const appends = Array.from({ length: 100 }, (_, i) => log.append("s", [`${i}-a`, `${i}-b`]));
      expect(await Promise.all(appends)).to.deep.equal(Array.from({ length: 100 }, (_, i) => 2 * i + 2));
      const { lines } = await log.read("s", all);
      expect(lines).to.deep.equal(Array.from({ length: 100 }, (_, i) => [`${i}-a`, `${i}-b`]).flat());
    });

    it("orders more lines than fit one byte, and drops all of them", async () => {
      const lines = Array.from({ length: 5_000 }, (_, i) => `line ${i}`);
      await log.append("s", lines);
      expect((await log.read("s", all)).lines).to.deep.equal(lines);
      await log.drop("s");
      expect(await log.read("s", all)).to.deep.equal({ lines: [], next: 0 });
      expect(await log.append("s", ["new"])).to.equal(1);
    });

    it("accepts an empty append, and a drop or read of an unknown stream", async () => {
      expect(await log.append("s", [])).to.equal(0);
      await log.drop("unknown");
      expect(await log.read("unknown", { from: 7, limit: 1 })).to.deep.equal({ lines: [], next: 7 });
    });

    it("trims the first lines of a stream; the others keep their indexes", async () => {
      expect(await log.bounds("s")).to.deep.equal({ first: 0, next: 0 });
      for (const line of ["a", "b", "c", "d"]) await log.append("s", [line]);
      await log.append("s-2", ["other"]);
      await log.trim("s", 2);
      expect(await log.bounds("s")).to.deep.equal({ first: 2, next: 4 });
      expect(await log.read("s", { from: 2, limit: 9 })).to.deep.equal({ lines: ["c", "d"], next: 4 });
      expect(await log.read("s", { from: 0, limit: 9 })).to.deep.equal({ lines: ["c", "d"], next: 4 });
      await log.trim("s", 100);
      expect(await log.bounds("s")).to.deep.equal({ first: 3, next: 4 }, "the last stays, so that numbers go on");
      expect(await log.append("s", ["e"])).to.equal(5);
      await log.trim("nothing", 5);
      expect((await log.read("s-2", all)).lines).to.deep.equal(["other"]);
    });

    it("keeps records in order of key, also after a reopen", async () => {
      const keys = ["b/1", "a/10", "a/2", "a/1", "a", "ab/1", "a/1/x"];
      await log.addRecords(keys.map((key) => ({ key, text: `of ${key}` })));
      await log.addRecords([{ key: "a/2", text: "another" }]);
      await log.append("a", ["a line"]);
      await log.close();
      log = location.open();
      const read = async (range: Partial<RecordRange>) =>
        (await log.readRecords({ prefix: "a/", limit: 100, ...range })).map(({ key }) => key);
      expect(await read({})).to.deep.equal(["a/1", "a/1/x", "a/10", "a/2"]);
      expect(await read({ after: "a/1", limit: 2 })).to.deep.equal(["a/1/x", "a/10"]);
      expect(await read({ after: "a/11" })).to.deep.equal(["a/2"]);
      expect(await read({ descending: true, limit: 2 })).to.deep.equal(["a/2", "a/10"]);
      expect(await read({ limit: 0 })).to.deep.equal([]);
      expect(await log.readRecords({ prefix: "a/2", limit: 1 })).to.deep.equal([]);
      expect(await log.readRecords({ prefix: "a/", after: "a/10", limit: 1 })).to.deep.equal([
        { key: "a/2", text: "of a/2" },
      ]);
      await log.removeRecords(["a/10", "a/2", "unknown"]);
      expect(await read({})).to.deep.equal(["a/1", "a/1/x"]);
      expect(await read({ prefix: "b/" })).to.deep.equal(["b/1"]);
      await log.addRecords([{ key: "a/2", text: "again" }]);
      expect(await read({})).to.deep.equal(["a/1", "a/1/x", "a/2"]);
      expect((await log.read("a", all)).lines).to.deep.equal(["a line"]);
      await log.removeRecords([]);
      await rejection(log.addRecords([{ key: "a b", text: "" }]), InvalidArgumentError);
    });

    it("refuses bad names, ranges and sizes, and appends nothing of them", async () => {
      for (const stream of ["", "a b", "a\0", "é", "-a", "x".repeat(201)]) {
        expect(await rejection(log.append(stream, ["line"])), stream).to.be.instanceOf(InvalidArgumentError);
      }
      await rejection(log.read("s", { from: -1, limit: 1 }), InvalidArgumentError);
      await rejection(log.read("s", { from: 0, limit: 0.5 }), InvalidArgumentError);
      await rejection(log.append("s", ["good", "x".repeat(2 ** 20 + 1)]), ResourceExhaustedError);
      await rejection(log.append("s", Array(10_001).fill("")), ResourceExhaustedError);
      expect(await log.read("s", all)).to.deep.equal({ lines: [], next: 0 });
    });

    it("refuses work after close", async () => {
      await log.append("s", ["a"]);
      await log.close();
      await rejection(log.append("s", ["b"]));
      await rejection(log.read("s", all));
    });
  });
}
