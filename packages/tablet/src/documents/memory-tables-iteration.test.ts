import { expect } from "chai";
import { type Disk, disk, withDisks } from "../testing/memory-disks.js";

describe("iteration over MemoryTables", () => {
  const hundreds = Array.from({ length: 1_500 }, (_, i) =>
    disk(`d${String(i).padStart(4, "0")}`, { hostId: `h${i % 3}` }),
  );

  it("allows deleting the visited document", () => {
    const memory = withDisks(...hundreds);
    memory.transact((tx) => {
      for (const each of tx.disks.by("byHost", "h0")) tx.disks.delete(each.diskId);
    });
    expect(memory.tables.disks.count("byHost", "h0")).to.equal(0);
    expect(memory.tables.disks.size).to.equal(1_000);
  });

  it("skips documents deleted before their turn, and shows the current version of replaced ones", () => {
    const memory = withDisks(disk("a"), disk("b"), disk("c"), disk("d"));
    memory.transact((tx) => {
      const seen: Disk[] = [];
      for (const each of tx.disks.entries()) {
        if (each.diskId === "a") {
          tx.disks.delete("b");
          tx.disks.put(disk("c", { size: 7 }));
        }
        seen.push(each);
      }
      expect(seen).to.deep.equal([disk("a"), disk("c", { size: 7 }), disk("d")]);
    });
  });

  it("allows moving each document to another index value once", () => {
    const memory = withDisks(...hundreds);
    memory.transact((tx) => {
      for (const each of tx.disks.by("byHost", "h1")) tx.disks.put({ ...each, hostId: "h2" });
    });
    expect(memory.tables.disks.count("byHost", "h2")).to.equal(1_000);
  });

  it("refuses an index that was not declared", () => {
    const { tables } = withDisks(disk("a"));
    // @ts-expect-error: the compiler refuses it first.
    expect(() => tables.disks.by("byColour", "red")).to.throw(TypeError, "no index byColour");
    // @ts-expect-error
    expect(() => tables.disks.count("byColour", "red")).to.throw(TypeError, "no index byColour");
  });
});
