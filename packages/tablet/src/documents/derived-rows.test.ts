import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { type Disk, disk } from "../testing/memory-disks.js";
import { MemoryTables } from "./memory-tables.js";
import { type Schema, table } from "./schema.js";

interface Host {
  readonly hostId: string;
  readonly az: string;
}

const rowsOf = ({ hostId, az }: Host, disks: Iterable<Disk>): [string, string][] =>
  [...disks].flatMap(({ diskId, size }) => [
    [`size ${size} ${diskId}`, `${diskId} on ${hostId}`],
    [`az ${az} ${diskId}`, `${diskId} in ${az}`],
  ]);

const schema = {
  hosts: table<Host>()({ key: (host) => host.hostId, rows: { table: "disks", index: "byHost", rowsOf } }),
  disks: table<Disk>()({ key: (each) => each.diskId, indexes: { byHost: (each) => each.hostId } }),
};

describe("rows of a table", () => {
  it("are those that the documents give, also within a transaction and after one that throws", () => {
    const random = randomOf(7);
    const below = (limit: number): number => Math.floor(random() * limit);
    const memory = new MemoryTables(schema);
    for (let n = 0; n < 1_000; n++) {
      const fails = below(4) === 0;
      const act = (): unknown =>
        memory.transact((tx) => {
          for (let i = below(4); i >= 0; i--) {
            const [hostId, diskId] = [`h${below(5)}`, `d${below(30)}`];
            const change = below(6);
            if (change === 0) tx.hosts.delete(hostId);
            else if (change === 1) tx.disks.delete(diskId);
            else if (change === 2) tx.hosts.put({ hostId, az: `z${below(3)}` });
            else tx.disks.put(disk(diskId, { hostId: below(9) === 0 ? undefined : hostId, size: below(9) }));
            if (below(3) === 0) expectRows(tx);
          }
          if (fails) throw new Error("undone");
        });
      if (fails) expect(act).to.throw("undone");
      else act();
      expectRows(memory.tables);
    }
  });

  it("are there after a load, whichever table is loaded first", () => {
    const memory = new MemoryTables(schema);
    memory.load("disks", "d1", { document: disk("d1", { hostId: "h1" }), version: 1 });
    memory.load("hosts", "h1", { document: { hostId: "h1", az: "z1" }, version: 1 });
    memory.endLoad();
    expect([...memory.tables.hosts.rows("", "~")]).to.deep.equal(["d1 in z1", "d1 on h1"]);
  });

  it("go on behind the last one when a change comes between", () => {
    const memory = new MemoryTables(schema);
    const all = Array.from({ length: 300 }, (_, i) => `d${1_000 + i}`);
    memory.transact((tx) => {
      tx.hosts.put({ hostId: "h1", az: "z1" });
      for (const id of all.filter((_, i) => i % 2 === 0)) tx.disks.put(disk(id, { hostId: "h1" }));
      const found: unknown[] = [];
      for (const row of tx.hosts.rows("az ", "az ~")) {
        found.push(row);
        if (found.length !== 2) continue;
        for (const id of all.slice(3)) tx.disks.put(disk(id, { hostId: "h1" }));
        expect([...tx.hosts.rows("az z1 d1002", "az z1 d1004")]).to.deep.equal(["d1003 in z1"]);
      }
      expect(found).to.deep.equal(all.filter((id) => id !== "d1001").map((id) => `${id} in z1`));
    });
  });

  it("are refused where there are none", () => {
    const { disks } = new MemoryTables(schema).tables;
    expect(() => disks.rows("", "~")).to.throw(TypeError, "table disks has no rows");
    const lost: Schema = { hosts: { ...schema.hosts, rows: { table: "gone", index: "byHost", rowsOf } } };
    expect(() => new MemoryTables(lost)).to.throw(TypeError, "table gone");
  });
});

function expectRows({ hosts, disks }: MemoryTables<typeof schema>["tables"]): void {
  const all = [...hosts.entries()].flatMap((host) => rowsOf(host, disks.by("byHost", host.hostId)));
  const sorted = all.sort(([a], [b]) => (a < b ? -1 : 1));
  const between = sorted.filter(([key]) => key > "az z1" && key < "size 5");
  expect([...hosts.rows("", "~")]).to.deep.equal(sorted.map(([, row]) => row));
  expect([...hosts.rows("az z1", "size 5")]).to.deep.equal(between.map(([, row]) => row));
}
