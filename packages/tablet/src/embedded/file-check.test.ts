import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidStateError } from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { table } from "../documents/schema.js";
import { Tablet } from "../tablet.js";
import { openEmbeddedStorage } from "./embedded-storage.js";

interface Host {
  readonly id: string;
  readonly n: number;
  readonly text: string;
}

const schema = { hosts: table<Host>()({ key: ({ id }) => id }) };
const HOUR_MS = 60 * 60_000;
const SMALL_BYTES = 2_000;

describe("the files of an embedded store in use", () => {
  let folder: string;
  let clock: ManualClock;
  let tablet: Tablet<typeof schema> | undefined;
  let found: string[];

  beforeEach(async () => {
    [folder, clock, found] = [temporaryFolder(), new ManualClock(), []];
    // Makes a snapshot, the journal after it, and the journal of the running process.
    await open(SMALL_BYTES);
    for (let n = 0; n < 40; n++) await put(n);
    await eventually(() => expect(files("snapshot")).to.have.length(1));
    await tablet?.close();
    await open();
    await put(41);
    await put(42);
  });

  afterEach(() => tablet?.close());

  async function open(journalsBytesMin = 2 ** 30): Promise<void> {
    const storage = openEmbeddedStorage({ folder, clock, journalsBytesMin });
    const onEdited = (text: string) => found.push(text);
    tablet = await Tablet.open({ name: "registry", schema, storage, address: "", onEdited });
  }
  const put = (n: number) =>
    (tablet as Tablet<typeof schema>).transact(({ hosts }) => {
      hosts.put({ id: `h${n % 7}`, n, text: "x".repeat(100) });
    });
  /** Advances the clock by an hour and waits for the end of the check. */
  async function check(): Promise<void> {
    await clock.advance(HOUR_MS);
    await eventually(() => expect(clock.sleepers).to.equal(1));
  }
  const documents = () => (tablet as Tablet<typeof schema>).read(({ hosts }) => [...hosts.entries()]);
  const files = (kind: string) => readdirSync(folder).filter((name) => name.startsWith(`${kind}.`));
  const pathOf = (kind: string, index: number) => join(folder, files(kind).sort().at(index) as string);
  function flip(path: string): void {
    const bytes = readFileSync(path);
    const at = Math.floor(bytes.length / 2);
    bytes[at] = (bytes[at] as number) ^ 1;
    writeFileSync(path, bytes);
  }

  const damages: readonly [string, () => string, (path: string) => void, RegExp][] = [
    ["a byte of the snapshot", () => pathOf("snapshot", -1), flip, /snapshot\.\d+ is damaged at byte \d+/],
    ["a byte of an older journal", () => pathOf("journal", -2), flip, /journal\.\d+ is damaged at byte \d+/],
    ["a byte of the journal in use", () => pathOf("journal", -1), flip, /journal\.\d+ is damaged at byte \d+/],
    ["a snapshot that was deleted", () => pathOf("snapshot", -1), rmSync, /journal\.\d+ is missing/],
  ];
  for (const [what, which, damage, message] of damages)
    it(`are checked hourly, and replaced from memory when damaged: ${what}`, async () => {
      await check();
      expect(found).to.deep.equal([]);
      const expected = await documents();
      damage(which());
      await check();
      expect(found).to.have.length(1);
      expect(found[0]).to.match(message).and.to.contain("nothing is lost");
      await eventually(() => expect(files("journal")).to.have.length(1));
      await check();
      await tablet?.close();
      await open();
      expect(await documents()).to.have.deep.members(expected);
      expect(found).to.have.length(1);
    });

  it("are compared with the state in memory, and replaced when a commit did not write all of it", async () => {
    await tablet?.close();
    const storage = openEmbeddedStorage({ folder, clock, journalsBytesMin: 2 ** 30 });
    const commit = storage.commit.bind(storage);
    // Stands for a defect of the storage, which loses a change of h3.
    storage.commit = (changes) => commit(changes.filter(({ key }) => key !== "h3"));
    const onEdited = (text: string) => found.push(text);
    tablet = await Tablet.open({ name: "registry", schema, storage, address: "", onEdited });
    await put(44);
    await check();
    expect(found).to.deep.equal([]);
    await put(45);
    const expected = await documents();
    await check();
    expect(found).to.have.length(1);
    expect(found[0]).to.contain("holds another state than memory").and.to.contain("hosts");
    await eventually(() => expect(files("journal")).to.have.length(1));
    await check();
    expect(found).to.have.length(1);
    await tablet?.close();
    await open();
    expect(await documents()).to.have.deep.members(expected);
  });

  it("are not taken for damaged while snapshots replace them", async () => {
    await tablet?.close();
    await open(SMALL_BYTES);
    for (let n = 0; n < 100; n++) await Promise.all([put(n), clock.advance(HOUR_MS), tablet?.claimAbove(n)]);
    expect(found).to.deep.equal([]);
  });

  it("do not accumulate over starts that the store refuses", async () => {
    await tablet?.close();
    flip(pathOf("snapshot", -1));
    const before = readdirSync(folder).sort();
    for (let start = 0; start < 3; start++) await rejection(open(), InvalidStateError, "is damaged at byte");
    expect(readdirSync(folder).sort()).to.deep.equal(before);
  });
});
