import { expect } from "chai";
import { BSON } from "mongodb";
import { randomOf } from "../contract/random.js";
import { MemoryTables } from "../documents/memory-tables.js";
import { table } from "../documents/schema.js";
import { encodeDocument } from "./encoding.js";

const TABLE = "t".repeat(63);
const DOCUMENTS = 2_000;

interface Keyed {
  readonly id: string;
  readonly value: unknown;
}

/** Returns the size that counts against the commit limit, and the size of the changes as stored in the log. */
function sizesOf(documents: readonly Keyed[], version: number): { counted: number; stored: number } {
  const memory = new MemoryTables({ [TABLE]: table<Keyed>()({ key: ({ id }) => id, version }) });
  const { changes, sizeBytes } = memory.transact((tx) => {
    for (const document of documents) tx[TABLE]?.put(document);
  });
  const logged = changes.map(({ key, document }) => ({
    table: TABLE,
    id: key,
    document: encodeDocument(TABLE, key, { document: document as object, version }).fields,
  }));
  return { counted: sizeBytes, stored: BSON.calculateObjectSize(logged) };
}

const ODD = [
  "\u0000",
  "\u0001",
  "\n",
  '"',
  "\\",
  "\ud800",
  "\u{1f4be}",
  "\u2028",
  "\u007f",
  "ü",
  "漢",
  "a",
  " ",
  ".",
  "$",
];
const NUMBERS = [0, -0, -999_999, 1e6, 2 ** 31, -(2 ** 53), 1.5, -2.2250738585072014e-308, 5e-324, 1e21];

describe("the size that counts against the limit of a commit on MongoDB", () => {
  const nasty: readonly [string, unknown][] = [
    ["control characters", "\u0001".repeat(10_000)],
    ["control characters, stored as JSON", { "a.b": "\u0001".repeat(10_000) }],
    ["quotes, stored as JSON", { "": '"'.repeat(10_000) }],
    ["lone surrogates", "\ud800".repeat(10_000)],
    ["names of control characters", { ["\u0001".repeat(10_000)]: 1 }],
    ["names of three bytes a letter", { ["漢".repeat(10_000)]: null }],
    ["many nulls", new Array(100_000).fill(null)],
    ["many zeros below zero", new Array(10_000).fill(-0)],
    ["small numbers of seven letters, stored as JSON", { "a.b": new Array(10_000).fill(-999_999) }],
    ["empty objects", new Array(10_000).fill(0).map(() => ({}))],
    ["depth", JSON.parse(`${'{"a":'.repeat(60)}1${"}".repeat(60)}`)],
  ];
  for (const [title, value] of nasty) {
    it(`is an upper bound for ${title}`, () => {
      const { counted, stored } = sizesOf([{ id: "漢".repeat(512), value }], 1_000);
      expect(counted).to.be.at.least(stored);
    });
  }

  it("is an upper bound for many small documents", () => {
    const documents = Array.from({ length: DOCUMENTS }, (_, i) => ({ id: `${i}`, value: null }));
    const { counted, stored } = sizesOf(documents, 2 ** 40);
    expect(counted).to.be.at.least(stored);
  });

  it(`is an upper bound for ${DOCUMENTS} random documents`, () => {
    const random = randomOf(11);
    const below = (limit: number): number => Math.floor(random() * limit);
    const text = (): string => Array.from({ length: below(12) }, () => ODD[below(ODD.length)]).join("");
    const valueAt = (depth: number): unknown => {
      const kind = below(depth > 4 ? 4 : 6);
      if (kind === 0) return text();
      if (kind === 1) return NUMBERS[below(NUMBERS.length)];
      if (kind === 2) return random() < 0.5;
      if (kind === 3) return null;
      if (kind === 4) return Array.from({ length: below(5) }, () => valueAt(depth + 1));
      const plain = random() < 0.5;
      const names = Array.from({ length: below(5) }, (_, i) => (plain ? `name${i}` : `${i}${text()}`));
      return Object.fromEntries(names.map((name) => [name, valueAt(depth + 1)]));
    };
    for (let i = 0; i < DOCUMENTS; i++) {
      const document = { id: `k${i}`, value: valueAt(0) };
      const { counted, stored } = sizesOf([document], 1 + below(3));
      expect(counted, JSON.stringify(document)).to.be.at.least(stored);
    }
  });
});
