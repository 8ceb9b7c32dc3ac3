import { ResourceExhaustedError } from "@diskmesh/domain";
import { expect } from "chai";
import { type Disk, disk, ids, schema, withDisks } from "../testing/memory-disks.js";
import { MemoryTables } from "./memory-tables.js";
import type { Change } from "./schema.js";

/** Removes fields that only storages need. */
function told(changes: readonly Change[]): Change[] {
  return changes.map(({ table, key, document }) => ({ table, key, document }));
}

describe("MemoryTables", () => {
  it("shows a transaction its own writes, and other readers the same afterwards", () => {
    const memory = withDisks(disk("a", { hostId: "h1" }));
    const { result, changes } = memory.transact((tx) => {
      tx.disks.put(disk("b", { hostId: "h1" }));
      tx.disks.put(disk("a", { hostId: "h2" }));
      return [
        tx.disks.size,
        ids(tx.disks.by("byHost", "h1")),
        tx.disks.count("byHost", "h2"),
        tx.disks.delete("nobody"),
      ];
    });
    expect(result).to.deep.equal([2, ["b"], 1, false]);
    expect(told(changes)).to.deep.equal([
      { table: "disks", key: "b", document: disk("b", { hostId: "h1" }) },
      { table: "disks", key: "a", document: disk("a", { hostId: "h2" }) },
    ]);
    expect(memory.tables.disks.get("a")).to.deep.equal(disk("a", { hostId: "h2" }));
  });

  it("reports one change per key, and none for an unchanged document", () => {
    const memory = withDisks(disk("a"), disk("b"));
    const before = memory.tables.disks.get("b") as Disk;
    const { changes } = memory.transact((tx) => {
      tx.disks.put(disk("a", { size: 2 }));
      tx.disks.delete("a");
      tx.disks.delete("b");
      tx.disks.put(before);
      tx.disks.put(disk("c"));
      tx.disks.delete("c");
    });
    expect(told(changes)).to.deep.equal([{ table: "disks", key: "a", document: null }]);
  });

  it("refuses a transaction above the size limit and undoes it", () => {
    const memory = withDisks(disk("a"));
    const large = { name: "large", value: "x".repeat(1_000) };
    const act = () =>
      memory.transact((tx) => void [tx.disks.delete("a"), tx.notes.put(large)], { sizeBytesMax: 1_000 });
    expect(act).to.throw(ResourceExhaustedError, "limit of 1000 bytes");
    expect(memory.tables.disks.has("a")).to.equal(true);
    expect(memory.tables.notes.size).to.equal(0);
    memory.transact((tx) => tx.notes.put(large), { sizeBytesMax: 2_000 });
  });

  it("never estimates a transaction smaller than its stored size", () => {
    const memory = new MemoryTables(schema);
    const values = [
      "\u20ac".repeat(300),
      [0.1, -1e-300, 123_456_789, -999_999, true, null],
      { a: { "": [] } },
      undefined,
      "\n".repeat(9),
    ];
    const { changes, sizeBytes } = memory.transact((tx) => {
      for (const [i, value] of values.entries()) tx.notes.put({ name: `${i}`, value });
    });
    const stored = changes.reduce(
      (sum, { key, document }) => sum + Buffer.byteLength(key + JSON.stringify(document)),
      0,
    );
    expect(sizeBytes).to.be.at.least(stored);
  });

  it("refuses a function that awaits, writes after its end, and nested transactions", async () => {
    const memory = withDisks();
    expect(() => memory.transact(async (tx) => tx.disks.put(disk("a")))).to.throw(TypeError, "must not await");
    let leaked: { put(doc: Disk): void } | undefined;
    memory.transact((tx) => {
      leaked = tx.disks;
    });
    expect(() => leaked?.put(disk("late"))).to.throw(TypeError, "after its transaction has ended");
    expect(() => memory.transact(() => memory.transact(() => {}))).to.throw(TypeError, "inside another");
    expect(memory.tables.disks.size).to.equal(0);
    memory.transact((tx) => tx.disks.put(disk("still works")));
  });

  describe("documents", () => {
    const cyclic: { name: string; value?: unknown } = { name: "n" };
    cyclic.value = { cyclic };
    for (const [title, value] of Object.entries({
      "a date": new Date(0),
      bytes: new Uint8Array(1),
      "a map": new Map(),
      "not a number": Number.NaN,
      infinity: [Number.POSITIVE_INFINITY],
      "a big integer": 1n,
      "a function": () => {},
      "undefined in a list": [undefined],
      itself: cyclic,
    })) {
      it(`must not hold ${title}`, () => {
        const memory = withDisks();
        expect(() => memory.transact((tx) => tx.notes.put({ name: "n", value }))).to.throw(TypeError);
        expect(memory.tables.notes.size).to.equal(0);
      });
    }

    for (const key of ["", "x".repeat(513), "\ud800", 7 as unknown as string, undefined as unknown as string]) {
      it(`must not have the key ${JSON.stringify(key)?.slice(0, 10)}`, () => {
        const memory = withDisks();
        expect(() => memory.transact((tx) => tx.disks.put(disk(key)))).to.throw(TypeError, "table disks");
        expect(memory.tables.disks.size).to.equal(0);
      });
    }

    it("are frozen in depth, whether put or loaded", () => {
      const memory = withDisks();
      memory.load("notes", "loaded", { document: { name: "loaded", value: { list: [{ deep: 1 }] } }, version: 1 });
      memory.endLoad();
      memory.transact((tx) => tx.notes.put({ name: "put", value: { list: [{ deep: 1 }] } }));
      for (const { value } of memory.tables.notes.entries()) {
        const { list } = value as { list: { deep: number }[] };
        expect(() => list.push({ deep: 2 })).to.throw(TypeError);
        expect(() => {
          (list[0] as { deep: number }).deep = 2;
        }).to.throw(TypeError);
      }
    });

    it("put back unchanged or restored to their former state are no change", () => {
      const memory = withDisks(disk("a"));
      const before = memory.tables.disks.get("a") as Disk;
      expect(memory.transact((tx) => tx.disks.put(before)).changes).to.deep.equal([]);
      const { changes } = memory.transact((tx) => {
        tx.disks.put({ ...before, size: 7 });
        tx.disks.put(before);
      });
      expect(changes).to.deep.equal([]);
      expect(memory.tables.disks.get("a")).to.equal(before);
    });

    it("are refused at load under another key or for an unknown table", () => {
      const memory = withDisks();
      expect(() => memory.load("disks", "a", { document: disk("b"), version: 1 })).to.throw(
        TypeError,
        'stored as "a" has the key "b"',
      );
      expect(() => memory.load("ghosts", "a", { document: {}, version: 1 })).to.throw(TypeError, "no table ghosts");
    });
  });

  it("of a load arrive in any order, with their indexes; a load into a table with documents is refused", () => {
    const memory = withDisks();
    for (const id of ["c", "a", "b"]) memory.load("disks", id, { document: disk(id, { hostId: "h" }), version: 1 });
    memory.endLoad();
    const { disks } = memory.tables;
    expect(ids(disks.entries())).to.deep.equal(["a", "b", "c"]);
    expect(ids(disks.by("byHost", "h"))).to.deep.equal(["a", "b", "c"]);
    memory.transact((tx) => tx.disks.delete("b"));
    expect(disks.count("byHost", "h")).to.equal(2);
    memory.load("disks", "d", { document: disk("d"), version: 1 });
    expect(() => memory.endLoad()).to.throw(TypeError, "table disks is loaded, and holds documents already");
  });

  it("are found under each value of an index through changes, an undone change and a load", () => {
    const memory = withDisks();
    const { notes } = memory.tables;
    const under = (...tags: string[]) => tags.map((tag) => Array.from(notes.by("byTag", tag), ({ name }) => name));
    memory.transact((tx) => {
      tx.notes.put({ name: "a", tags: ["x", "y"] });
      tx.notes.put({ name: "b", tags: ["y"] });
      tx.notes.put({ name: "c", tags: [] });
    });
    expect(under("x", "y", "z")).to.deep.equal([["a"], ["a", "b"], []]);
    const change = (fails: boolean) =>
      memory.transact((tx) => {
        tx.notes.put({ name: "a", tags: ["y", "z"] });
        tx.notes.delete("b");
        if (fails) throw new Error("undo");
      });
    expect(() => change(true)).to.throw("undo");
    expect(under("x", "y", "z")).to.deep.equal([["a"], ["a", "b"], []]);
    change(false);
    expect(under("x", "y", "z")).to.deep.equal([[], ["a"], ["a"]]);
    const loaded = withDisks();
    loaded.load("notes", "a", { document: { name: "a", tags: ["x", "y"] }, version: 1 });
    loaded.endLoad();
    expect(["x", "y"].map((tag) => loaded.tables.notes.count("byTag", tag))).to.deep.equal([1, 1]);
    const wrong = { name: "a", tags: ["x", 1] } as unknown as { name: string; tags: string[] };
    expect(() => memory.transact((tx) => tx.notes.put(wrong))).to.throw(TypeError, "index byTag");
    expect(under("y")).to.deep.equal([["a"]]);
  });
});
