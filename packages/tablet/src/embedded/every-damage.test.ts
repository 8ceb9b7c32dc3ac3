import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { table } from "../documents/schema.js";
import type { Examined } from "../examine/examination.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { openEmbeddedStorage } from "./embedded-storage.js";
import { examineFolder } from "./examine-folder.js";
import { PowerCutFiles } from "./testing/power-cut-files.js";

interface Host {
  readonly id: string;
  readonly n: number;
  readonly text: string;
}

type Contents = ReadonlyMap<string, Buffer>;

const FOLDER = "/state/registry";
const LEADER = { writer: "writer", address: "" };
const schema = { hosts: table<Host>()({ key: ({ id }) => id }) };
const BITS = 1_000;
const BYTES = 300;

/** Files of a store, the states that it had, in order, and all files that it ever had. */
interface Store {
  readonly files: Contents;
  readonly states: readonly string[];
  readonly history: readonly (readonly [name: string, content: Buffer])[];
  /** Files of another store that was made in the same way. */
  readonly others: Contents;
}

interface Kind {
  readonly title: string;
  /** True when the last process ended with a clean stop. */
  readonly isClosed: boolean;
  /** True when the last process made a snapshot, while commits went on. */
  readonly hasLateSnapshot: boolean;
}

const KINDS: readonly Kind[] = [
  { title: "after a stop", isClosed: true, hasLateSnapshot: false },
  { title: "after a crash", isClosed: false, hasLateSnapshot: false },
  { title: "after a crash behind a snapshot", isClosed: false, hasLateSnapshot: true },
];

/**
 * Makes a store with snapshots in its history, and later journals. Commits change documents that others of them change
 * or delete. `word` is part of each document.
 */
async function makeStore({ isClosed, hasLateSnapshot }: Kind, word: string): Promise<Store> {
  const files = new PowerCutFiles();
  const history = new Map<string, readonly [string, Buffer]>();
  const states = [stateOf([])];
  const current = new Map<string, Host>();
  for (let life = 0; life < 5; life++) {
    const storage = open(files, life === 0 || life === 2 || (life === 4 && hasLateSnapshot) ? 1_500 : 2 ** 30);
    const committing: Promise<void>[] = [];
    await storage.claim(LEADER);
    await storage.load();
    for (let n = life * 10; n < life * 10 + 9; n++) {
      const [put, other] = [
        { id: `h${n % 5}`, n, text: `${word} @ words ${"x".repeat((n * 7) % 50)}` },
        `h${(n + 2) % 5}`,
      ];
      current.set(put.id, put);
      current.delete(other);
      committing.push(
        storage.commit([
          { table: "hosts", key: put.id, document: put },
          { table: "hosts", key: other, document: null },
        ]),
      );
      if (life < 4 || n % 3 === 0) await Promise.all(committing);
      states.push(stateOf(current.values()));
      for (const [name, content] of contentsOf(files))
        history.set(`${name} ${content.toString("latin1")}`, [name, content]);
    }
    await Promise.all(committing);
    if (isClosed || life < 4) await storage.close({ handOver: true });
  }
  const made = contentsOf(files);
  expect([...made.keys()].join()).to.match(/snapshot/);
  return { files: made, states, history: [...history.values()], others: new Map() };
}

/** Returns all files but the reserve, which holds no data. */
function contentsOf(files: PowerCutFiles): Map<string, Buffer> {
  return new Map([...files.contents()].filter(([name]) => name !== "reserve"));
}

function open(files: PowerCutFiles, journalsBytesMin = 2 ** 30): TrackedStorage {
  return new TrackedStorage(openEmbeddedStorage({ folder: FOLDER, files, exclusive: false, journalsBytesMin }));
}

function stateOf(hosts: Iterable<object>): string {
  return JSON.stringify([...hosts].sort((a, b) => ((a as Host).id < (b as Host).id ? -1 : 1)));
}

/** Returns the state that a start takes; undefined when it refuses the store. */
async function started(contents: Contents): Promise<string | undefined> {
  const files = PowerCutFiles.of(FOLDER, contents);
  const storage = openEmbeddedStorage({ folder: FOLDER, files, exclusive: false });
  const found: object[] = [];
  try {
    await storage.claim(LEADER);
    await storage.load((_, __, { document }) => found.push(document));
    return stateOf(found);
  } catch (error) {
    if (error instanceof InvalidStateError) return undefined;
    throw error;
  } finally {
    await storage.close({ handOver: true });
  }
}

/** Returns what a check finds; only its problem when it finds no tablet. */
async function examined(contents: Contents, withGaps: boolean): Promise<Omit<Examined, "claim">> {
  const files = PowerCutFiles.of(FOLDER, contents);
  try {
    return await examineFolder({ folder: FOLDER, schema, withGaps, files, exclusive: false });
  } catch (error) {
    if (!(error instanceof InvalidStateError)) throw error;
    return { documents: [], problems: [messageOf(error)], isWhole: false };
  } finally {
    expect(files.contents()).to.deep.equal(new Map(contents));
  }
}

interface Counts {
  taken: number;
  refused: number;
  salvaged: number;
  holed: number;
}

/** Checks what start, `verify` and `salvage` make of damaged files. `where` names the damage. */
async function check(store: Store, contents: Contents, where: string, isExact: boolean, counts: Counts) {
  const [start, verified, salvaged] = [
    await started(contents),
    await examined(contents, true),
    await examined(contents, false),
  ];
  const documentsOf = ({ documents }: Omit<Examined, "claim">) => stateOf(documents.map(({ document }) => document));
  if (start === undefined) {
    counts.refused++;
    expect(verified.problems, `${where}: refused, so it has a problem`).not.to.deep.equal([]);
    expect(salvaged.problems, `${where}: a salvage names it, too`).not.to.deep.equal([]);
  } else {
    counts.taken++;
    const allowed = isExact ? store.states.slice(-1) : store.states;
    expect(allowed.includes(start), `${where}: taken, so it was a state`).to.equal(true);
    expect(verified.problems, `${where}: taken, so it has no problem`).to.deep.equal([]);
    expect(documentsOf(verified), where).to.equal(start);
  }
  for (const each of [verified, salvaged]) {
    if (!each.isWhole) counts.holed++;
    else {
      counts.salvaged++;
      expect(store.states.includes(documentsOf(each)), `${where}: salvaged as whole, so it was a state`).to.equal(true);
    }
  }
}

type Damage = readonly [where: string, contents: Contents];

function* bits({ files }: Store, random: () => number): Generator<Damage> {
  const names = [...files.keys()].filter((name) => name !== "holds-data");
  const last = lastOf(files, "journal");
  const flipped = (name: string, bit: number): Damage => {
    const bytes = Buffer.from(files.get(name) as Buffer);
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
    return [`bit ${bit} of ${name}`, new Map([...files, [name, bytes]])];
  };
  const tail = files.get(last) as Buffer;
  for (let bit = 8 * (tail.lastIndexOf(10, -2) - 10); bit < 8 * tail.length; bit++) yield flipped(last, bit);
  for (let n = 0; n < BITS; n++) {
    const name = names[n % names.length] as string;
    yield flipped(name, Math.floor(random() * 8 * (files.get(name) as Buffer).length));
  }
}

function* bytes({ files }: Store, random: () => number): Generator<Damage> {
  const names = [...files.keys()];
  for (let n = 0; n < BYTES; n++) {
    const name = names[n % names.length] as string;
    const content = files.get(name) as Buffer;
    const at = Math.floor(random() * content.length);
    const [before, after] = [content.subarray(0, at), content.subarray(at + 1)];
    const other = Buffer.of([0, 10, 32, 255, Math.floor(random() * 256)][n % 5] as number);
    const size = Math.floor(random() * 700);
    for (const [what, changed] of [
      ["changed", [before, other, after]],
      ["removed", [before, after]],
      ["inserted", [before, other, content.subarray(at)]],
      ["the end", [before]],
      [
        `${size} bytes zeroed`,
        [before, Buffer.alloc(Math.min(size, content.length - at)), content.subarray(at + size)],
      ],
      [`${size} bytes of another place`, [before, content.subarray(0, size), content.subarray(at + size)]],
    ] as const)
      yield [`byte ${at} of ${name}: ${what}`, new Map([...files, [name, Buffer.concat(changed)]])];
  }
}

function* lines({ files }: Store): Generator<Damage> {
  for (const [name, content] of files) {
    const all = content.toString("latin1").split(/(?<=\n)/);
    const changed = (where: string, found: readonly string[]): Damage => [
      `${where} of ${name}`,
      new Map([...files, [name, Buffer.from(found.join(""), "latin1")]]),
    ];
    for (let a = 0; a < all.length; a++) {
      yield changed(`line ${a} removed`, all.toSpliced(a, 1));
      yield changed(`lines from ${a} on removed`, all.slice(0, a));
      for (let b = 0; b < all.length; b++) {
        const [lineA, lineB] = [all[a] as string, all[b] as string];
        yield changed(`line ${a} repeated at ${b}`, all.toSpliced(b, 0, lineA));
        yield changed(`line ${a} over line ${b}`, all.toSpliced(b, 1, lineA));
        if (a < b) yield changed(`lines ${a} and ${b} exchanged`, all.with(a, lineB).with(b, lineA));
      }
    }
  }
}

function* wholeFiles({ files, history, others }: Store): Generator<Damage> {
  for (const name of files.keys()) {
    yield [`${name} removed`, new Map([...files].filter(([other]) => other !== name))];
    yield [`${name} emptied`, new Map([...files, [name, Buffer.alloc(0)]])];
    const foreign = others.get(name);
    if (foreign !== undefined) yield [`${name} of another store`, new Map([...files, [name, foreign]])];
    for (const [other, content] of files) yield [`${name} as ${other}`, new Map([...files, [name, content]])];
    for (const [index, [former, content]] of history.entries())
      if (kindOf(former) === kindOf(name))
        yield [`${name} as file ${index}, ${former}`, new Map([...files, [name, content]])];
  }
  for (const [index, [former, content]] of history.entries())
    if (!files.has(former)) yield [`file ${index}, ${former}, again there`, new Map([...files, [former, content]])];
}

function* names({ files }: Store): Generator<Damage> {
  for (const [name, content] of files)
    for (const kind of ["journal", "snapshot", "end"])
      for (let number = 0; number < 9; number++) {
        const other = `${kind}.${String(number).padStart(16, "0")}`;
        const rest = [...files].filter(([each]) => each !== name);
        yield [`${name} renamed to ${other}`, new Map([...rest, [other, content]])];
        yield [`${name} copied to ${other}`, new Map([...files, [other, content]])];
      }
}

function kindOf(name: string): string {
  return name.split(".")[0] as string;
}

function lastOf(files: Contents, kind: string): string {
  return [...files.keys()]
    .filter((name) => kindOf(name) === kind)
    .sort()
    .at(-1) as string;
}

describe("Any one damage to an embedded store", () => {
  for (const kind of KINDS)
    for (const [what, damages] of Object.entries({ bits, bytes, lines, "whole files": wholeFiles, names }))
      it(`of ${what}, ${kind.title}, is refused with a problem, or leaves a state that was`, async function () {
        if (what === "bits" || what === "bytes") leaveToVerify(this);
        const [store, { files: others }] = [await makeStore(kind, "some"), await makeStore(kind, "same")];
        const counts: Counts = { taken: 0, refused: 0, salvaged: 0, holed: 0 };
        await check(store, store.files, "undamaged", true, counts);
        expect(counts).to.deep.equal({ taken: 1, refused: 0, salvaged: 2, holed: 0 });
        // A crash may have cut off the last commits, but it flips no bit.
        const isExact = kind.isClosed || what === "bits";
        for (const [where, contents] of damages({ ...store, others }, randomOf(4_714)))
          await check(store, contents, where, isExact, counts);
        for (const count of Object.values(counts)) expect(count, JSON.stringify(counts)).to.be.above(0);
      });
});
