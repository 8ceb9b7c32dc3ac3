import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { type Disk, disk, ids, schema } from "../testing/memory-disks.js";
import { MemoryTables } from "./memory-tables.js";

describe("MemoryTables compared with a naive map", () => {
  it("agree through any sequence of transactions", () => {
    for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) runAgainstOracle(seed);
  });
});

/**
 * Compares the tables with a simple implementation. Some runs use many keys per index value and others few, so that key
 * sets take all their forms.
 */
function runAgainstOracle(seed: number): void {
  const random = randomOf(seed);
  const pick = (count: number): number => Math.floor(random() * count);
  const memory = new MemoryTables(schema);
  const keys = seed % 2 === 0 ? 2_000 : 60;
  const hosts = seed % 4 < 2 ? 3 : 50;
  let oracle = new Map<string, Disk>();
  for (let step = 0; step < 400; step++) {
    const next = new Map(oracle);
    // Within a run the table grows, shrinks and grows again.
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
    // Compares identities, which is stricter and much faster than comparing contents.
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
