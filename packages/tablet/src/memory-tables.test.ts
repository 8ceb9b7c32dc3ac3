import { ResourceExhaustedError } from "@diskmesh/domain";
import { expect } from "chai";
import { randomOf } from "./contract/random.js";
import { MemoryTables } from "./memory-tables.js";
import { type Change, table } from "./schema.js";

interface Disk {
  readonly diskId: string;
  readonly hostId?: string | undefined;
  readonly pool: string;
  readonly size: number;
}

const schema = {
  disks: table<Disk>()({
    key: (disk) => disk.diskId,
    indexes: { byHost: (disk) => disk.hostId, byPool: (disk) => disk.pool },
  }),
  notes: table<{ readonly name: string; readonly value?: unknown; readonly tags?: readonly string[] }>()({
    key: (note) => note.name,
    indexes: { byTag: (note) => note.tags },
  }),
};

function disk(diskId: string, rest: Partial<Disk> = {}): Disk {
  return { diskId, pool: "default", size: 1, ...rest };
}

function withDisks(...disks: Disk[]): MemoryTables<typeof schema> {
  const memory = new MemoryTables(schema);
  memory.transact((tx) => {
    for (const each of disks) tx.disks.put(each);
  });
  return memory;
}

/** Without what only storages need. */
function told(changes: readonly Change[]): Change[] {
  return changes.map(({ table, key, document }) => ({ table, key, document }));
}

function ids(disks: Iterable<Disk>): string[] {
  return Array.from(disks, (each) => each.diskId);
}

describe("MemoryTables", () => {
  it("shows a transaction its own writes, and the rest afterwards", () => {
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

  it("tells one change per key, and none for what is as before", () => {
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

  it("undoes everything when the function throws", () => {
    const memory = withDisks(disk("a", { hostId: "h1" }), disk("b", { hostId: "h1" }));
    expect(() =>
      memory.transact((tx) => {
        tx.disks.put(disk("a", { hostId: "h2" }));
        tx.disks.put(disk("a", { hostId: "h3" }));
        tx.disks.delete("b");
        tx.disks.put(disk("b", { hostId: "h4" }));
        tx.disks.put(disk("c", { hostId: "h1" }));
        throw new Error("changed my mind");
      }),
    ).to.throw("changed my mind");
    expect([...memory.tables.disks.entries()]).to.deep.equal([
      disk("a", { hostId: "h1" }),
      disk("b", { hostId: "h1" }),
    ]);
    expect(ids(memory.tables.disks.by("byHost", "h1"))).to.deep.equal(["a", "b"]);
    expect(["h2", "h3", "h4"].map((host) => memory.tables.disks.count("byHost", host))).to.deep.equal([0, 0, 0]);
    expect(memory.tables.disks.count("byPool", "default")).to.equal(2);
  });

  it("refuses a transaction above the size limit, and undoes it", () => {
    const memory = withDisks(disk("a"));
    const large = { name: "large", value: "x".repeat(1_000) };
    const act = () =>
      memory.transact((tx) => void [tx.disks.delete("a"), tx.notes.put(large)], { sizeBytesMax: 1_000 });
    expect(act).to.throw(ResourceExhaustedError, "limit of 1000 bytes");
    expect(memory.tables.disks.has("a")).to.equal(true);
    expect(memory.tables.notes.size).to.equal(0);
    memory.transact((tx) => tx.notes.put(large), { sizeBytesMax: 2_000 });
  });

  it("never estimates a transaction smaller than what is stored of it", () => {
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

  it("refuses a function that awaits, writes after the end, and transactions inside each other", async () => {
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

    it("that are put back as they are, or were, are no change", () => {
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

    it("are refused at load under another key, or for a table that is not there", () => {
      const memory = withDisks();
      expect(() => memory.load("disks", "a", { document: disk("b"), version: 1 })).to.throw(
        TypeError,
        'stored as "a" has the key "b"',
      );
      expect(() => memory.load("ghosts", "a", { document: {}, version: 1 })).to.throw(TypeError, "no table ghosts");
    });
  });

  it("hold what a load brought, in any order, with its indexes, and refuse a load into what has documents", () => {
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

  it("find a document under each value of an index, through changes, an undone one and a load", () => {
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

  describe("iteration", () => {
    const hundreds = Array.from({ length: 1_500 }, (_, i) =>
      disk(`d${String(i).padStart(4, "0")}`, { hostId: `h${i % 3}` }),
    );

    it("pages in order of key, also after a key that is gone", () => {
      const { tables } = withDisks(...hundreds.toReversed());
      expect(ids(tables.disks.entries())).to.deep.equal(ids(hundreds));
      expect(ids(tables.disks.entries({ after: "d0009", limit: 2 }))).to.deep.equal(["d0010", "d0011"]);
      expect(ids(tables.disks.entries({ after: "d0009x", limit: 1 }))).to.deep.equal(["d0010"]);
      expect(ids(tables.disks.entries({ after: "d1499" }))).to.deep.equal([]);
      expect(ids(tables.disks.entries({ limit: 0 }))).to.deep.equal([]);
      expect(ids(tables.disks.by("byHost", "h1", { after: "d0001", limit: 2 }))).to.deep.equal(["d0004", "d0007"]);
      expect(ids(tables.disks.by("byHost", "h2"))).to.deep.equal(ids(hundreds.filter((each) => each.hostId === "h2")));
      expect(ids(tables.disks.by("byHost", "nobody"))).to.deep.equal([]);
    });

    it("can delete what it visits", () => {
      const memory = withDisks(...hundreds);
      memory.transact((tx) => {
        for (const each of tx.disks.by("byHost", "h0")) tx.disks.delete(each.diskId);
      });
      expect(memory.tables.disks.count("byHost", "h0")).to.equal(0);
      expect(memory.tables.disks.size).to.equal(1_000);
    });

    it("skips what was deleted before its turn, and shows what was replaced as it is now", () => {
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

    it("can move each document to another index value once", () => {
      const memory = withDisks(...hundreds);
      memory.transact((tx) => {
        for (const each of tx.disks.by("byHost", "h1")) tx.disks.put({ ...each, hostId: "h2" });
      });
      expect(memory.tables.disks.count("byHost", "h2")).to.equal(1_000);
    });

    it("a snapshot of a table, or of an index value, stays as it was, whatever the number of keys", () => {
      for (const count of [0, 1, 2, 200, 1_000]) {
        const all = Array.from({ length: count }, (_, i) => disk(`k${String(i).padStart(4, "0")}`, { hostId: "h1" }));
        const memory = withDisks(...all);
        const { disks } = memory.tables;
        const snapshots = [disks.snapshot(), disks.snapshot("byHost", "h1")];
        memory.transact((tx) => {
          for (const each of all) {
            if (each.diskId.endsWith("1")) tx.disks.delete(each.diskId);
            else tx.disks.put({ ...each, hostId: each.diskId.endsWith("2") ? "h2" : "h1", size: 2 });
          }
          tx.disks.put(disk("k0000a", { hostId: "h1" }));
        });
        for (const snapshot of snapshots) {
          expect([...snapshot.entries()]).to.deep.equal(all);
          expect([...snapshot.entries({ after: "k0002", limit: 3 })]).to.deep.equal(all.slice(3, 6));
        }
        expect([...disks.snapshot("byHost", "h2").entries()]).to.deep.equal([...disks.by("byHost", "h2")]);
      }
    });

    it("refuses an index that was not declared", () => {
      const { tables } = withDisks(disk("a"));
      // @ts-expect-error: the compiler refuses it first.
      expect(() => tables.disks.by("byColour", "red")).to.throw(TypeError, "no index byColour");
      // @ts-expect-error
      expect(() => tables.disks.count("byColour", "red")).to.throw(TypeError, "no index byColour");
    });
  });

  it("agrees with a naive map through any sequence of transactions", () => {
    for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) runAgainstOracle(seed);
  });
});

/** Many keys per index value in some runs and few in others, so that all forms of a key set grow and shrink. */
function runAgainstOracle(seed: number): void {
  const random = randomOf(seed);
  const pick = (count: number): number => Math.floor(random() * count);
  const memory = new MemoryTables(schema);
  const keys = seed % 2 === 0 ? 2_000 : 60;
  const hosts = seed % 4 < 2 ? 3 : 50;
  let oracle = new Map<string, Disk>();
  for (let step = 0; step < 400; step++) {
    const next = new Map(oracle);
    // Runs grow, shrink and grow again.
    const deleting = step % 200 < 120 ? 0.2 : 0.9;
    const throwing = random() < 0.2;
    const act = () =>
      memory.transact((tx) => {
        for (let i = pick(40); i >= 0; i--) {
          const diskId = `k${pick(keys)}`;
          if (random() < deleting) expect(tx.disks.delete(diskId)).to.equal(next.delete(diskId));
          else {
            const doc = disk(diskId, { hostId: random() < 0.2 ? undefined : `h${pick(hosts)}`, size: pick(5) });
            tx.disks.put(doc);
            const kept = tx.disks.get(diskId) as Disk;
            expect(JSON.stringify(kept)).to.equal(JSON.stringify(doc));
            next.set(diskId, kept);
          }
        }
        if (throwing) throw new Error("undo");
      });
    if (throwing) expect(act).to.throw("undo");
    else {
      const before = oracle;
      oracle = next;
      expectChanges(act().changes, before, oracle, seed);
    }
    expectSame(memory, oracle, { after: `k${pick(keys)}`, limit: pick(300), host: `h${pick(hosts)}`, seed, step });
  }
}

function expectChanges(
  changes: readonly { key: string; document: object | null }[],
  before: Map<string, Disk>,
  after: Map<string, Disk>,
  seed: number,
): void {
  const folded = new Map(before);
  for (const { key, document } of changes) {
    if (document === null) folded.delete(key);
    else folded.set(key, document as Disk);
  }
  const at = `seed ${seed}: the changes do not lead from before to after`;
  expect(folded.size, at).to.equal(after.size);
  for (const [key, doc] of after) if (folded.get(key) !== doc) expect.fail(`${at}: ${key}`);
  expect(new Set(changes.map(({ key }) => key)).size).to.equal(changes.length);
}

function expectSame(
  { tables: { disks } }: MemoryTables<typeof schema>,
  oracle: Map<string, Disk>,
  { after, limit, host, seed, step }: { after: string; limit: number; host: string; seed: number; step: number },
): void {
  const same = (what: string, actual: Iterable<Disk>, expected: readonly Disk[]): void => {
    const found = [...actual];
    // The very same documents, which is also much faster to compare than their contents.
    if (found.length === expected.length && found.every((each, i) => each === expected[i])) return;
    expect.fail(`seed ${seed}, step ${step}: ${what} gives ${ids(found)} instead of ${ids(expected)}`);
  };
  const sorted = [...oracle.values()].sort((a, b) => (a.diskId < b.diskId ? -1 : 1));
  const onHost = sorted.filter((each) => each.hostId === host);
  expect(disks.size).to.equal(oracle.size);
  expect(disks.get(after)).to.equal(oracle.get(after));
  expect(disks.has(after)).to.equal(oracle.has(after));
  expect(disks.count("byHost", host)).to.equal(onHost.length);
  const page = (all: readonly Disk[]): Disk[] => all.filter((each) => each.diskId > after).slice(0, limit);
  same("byHost", disks.by("byHost", host), onHost);
  same("entries page", disks.entries({ after, limit }), page(sorted));
  same("byHost page", disks.by("byHost", host, { after, limit }), page(onHost));
  same("byPool", disks.by("byPool", "default"), sorted);
}
