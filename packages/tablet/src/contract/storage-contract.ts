import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { FencedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { Change } from "../schema.js";
import type { Claim, TabletStorage } from "../storage.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { randomOf } from "./random.js";

/** One tablet's state somewhere, as an adapter's tests provide it. */
export interface StorageLocation {
  /** A new client of the state, as another process would have it; several may be open at once. */
  open(): TabletStorage;
  /** For processes: a module that exports `openLocation(argument): TabletStorage`. */
  readonly moduleUrl: string;
  readonly argument: string;
  remove(): Promise<void>;
}

type Contents = Map<string, unknown>;

const CHILD = fileURLToPath(new URL("./commit-until-killed.js", import.meta.url));

/** What every TabletStorage must do. Registers a mocha suite. */
export function storageContract(name: string, makeLocation: () => Promise<StorageLocation>): void {
  describe(`storage contract: ${name}`, () => {
    let location: StorageLocation;
    let opened: TrackedStorage[];

    beforeEach(async () => {
      location = await makeLocation();
      opened = [];
    });

    afterEach(async () => {
      await Promise.all(opened.map((storage) => storage.close({ handOver: true })));
      await location.remove();
    });

    function open(): TrackedStorage {
      const storage = new TrackedStorage(location.open());
      opened.push(storage);
      return storage;
    }

    async function openClaimed(writer = "writer"): Promise<TrackedStorage> {
      const storage = open();
      await claim(storage, writer);
      return storage;
    }

    /** Ready to commit. */
    async function openLoaded(writer?: string): Promise<TrackedStorage> {
      const storage = await openClaimed(writer);
      await storage.load(() => {});
      return storage;
    }

    /** What the next leader finds, which is this one from now on. */
    async function contentsOfNext(writer?: string): Promise<Contents> {
      return contentsOf(await openClaimed(writer));
    }

    describe("claim", () => {
      it("starts at generation 1 and goes up by one, for the same tablet", async () => {
        const claims = [];
        for (const writer of ["a", "b", "c"]) {
          const storage = open();
          claims.push(await claim(storage, writer));
          await storage.close({ handOver: true });
        }
        expect(claims.map(({ generation }) => generation)).to.deep.equal([1, 2, 3]);
        expect(claims[0]?.tabletId).to.match(/^[0-9a-f-]{36}$/);
        expect(new Set(claims.map(({ tabletId }) => tabletId)).size).to.equal(1);
      });

      it("tells the incarnation, which is the same from the first claim on, and that it has no parents", async () => {
        const claims = [];
        for (const writer of ["a", "b", "c"]) {
          const storage = open();
          claims.push(await claim(storage, writer));
          await storage.load(() => {});
          if (writer === "b") await storage.claimAbove(10);
          await storage.close({ handOver: true });
        }
        const [first] = claims;
        expect(first?.incarnation).to.match(/^[0-9a-f-]{36}$/);
        for (const { incarnation, parentIncarnations, tabletId } of claims) {
          expect([incarnation, parentIncarnations]).to.deep.equal([first?.incarnation, []]);
          expect(incarnation).not.to.equal(tabletId);
        }
      });

      it("gives racing claimants different generations, and only the highest can commit", async () => {
        const racing = ["a", "b", "c", "d"].map((writer) => ({ writer, storage: open() }));
        const claimed = await Promise.all(
          racing.map(async ({ writer, storage }) => {
            const claimed = await claim(storage, writer).catch(() => undefined);
            return { storage, generation: claimed?.generation ?? 0 };
          }),
        );
        const generations = claimed.map(({ generation }) => generation).filter((generation) => generation > 0);
        expect(new Set(generations).size).to.equal(generations.length);
        const highest = Math.max(...generations);
        for (const { storage, generation } of claimed.filter((each) => each.generation > 0)) {
          const leading = storage.load(() => {}).then(() => storage.commit([put("hosts", "winner", { generation })]));
          const ended = await leading.catch((error: unknown) => error);
          // Where there is a lease, the highest is fenced too when its claim came after another had taken that.
          if (generation !== highest || ended !== undefined) expect(ended).to.be.instanceOf(FencedError);
        }
        const next = open();
        expect((await claim(next, "next")).generation).to.equal(highest + 1);
        const winners = [...(await contentsOf(next)).values()];
        if (winners.length > 0) expect(winners).to.deep.equal([{ generation: highest }]);
      });

      it("must come before anything else", async () => {
        const storage = open();
        await rejection(storage.commit([put("hosts", "h", {})]));
        await rejection(storage.load(() => {}));
        await rejection(storage.renew());
      });
    });

    describe("claiming above a number", () => {
      it("takes a generation above it and above the own one, and the next claim goes on from there", async () => {
        const storage = await openLoaded();
        expect(await storage.claimAbove(40)).to.equal(41);
        expect(await storage.claimAbove(3)).to.equal(42);
        await storage.commit([put("hosts", "h", { n: 1 })]);
        await storage.close({ handOver: true });
        const next = open();
        expect((await claim(next, "next")).generation).to.equal(43);
        expect(await contentsOf(next)).to.deep.equal(new Map([["hosts/h", { n: 1 }]]));
      });

      it("goes on while commits are under way, of which none is lost", async () => {
        const storage = await openLoaded();
        const expected: Contents = new Map();
        const claiming: Promise<number>[] = [];
        for (let n = 0; n < 60; n++) {
          if (n % 20 === 5) claiming.push(storage.claimAbove(n * 10));
          await storage.commit([put("hosts", `h${n % 7}`, { n }), remove("hosts", `h${(n + 3) % 7}`)]);
          expected.set(`hosts/h${n % 7}`, { n });
          expected.delete(`hosts/h${(n + 3) % 7}`);
        }
        expect((await Promise.all(claiming)).at(-1)).to.be.above(450);
        await storage.renew();
        await storage.close({ handOver: true });
        expect(await contentsOfNext()).to.deep.equal(expected);
      });

      it("is refused when a newer leader has claimed", async () => {
        const older = await openLoaded("older");
        const newer = await openLoaded("newer");
        await rejection(older.claimAbove(100), FencedError);
        await newer.commit([put("hosts", "h", {})]);
        expect((await claim(open(), "next")).generation).to.equal(3);
      });

      it("is refused when it comes before anything is loaded, or after the end", async () => {
        const storage = open();
        await rejection(storage.claimAbove(1));
        await claim(storage, "writer");
        await storage.load(() => {});
        await storage.close({ handOver: true });
        await rejection(storage.claimAbove(1));
      });
    });

    describe("fencing", () => {
      it("refuses the older leader's commit, and nothing of it is visible", async () => {
        const older = await openLoaded("older");
        await older.commit([put("hosts", "h1", { by: "older" }), put("hosts", "h2", { by: "older" })]);
        const newer = await openClaimed("newer");
        await rejection(
          older.commit([
            put("hosts", "h1", { by: "late" }),
            remove("hosts", "h2"),
            put("devices", "d1", { by: "late" }),
          ]),
          FencedError,
        );
        expect(await contentsOf(newer)).to.deep.equal(
          new Map([
            ["hosts/h1", { by: "older" }],
            ["hosts/h2", { by: "older" }],
          ]),
        );
      });

      it("tells the older leader when it renews, and not the current one", async () => {
        const older = await openClaimed("older");
        await older.renew();
        const newer = await openClaimed("newer");
        await rejection(older.renew(), FencedError);
        await newer.renew();
      });

      it("keeps a fenced leader fenced", async () => {
        const older = await openLoaded("older");
        const newer = await openLoaded("newer");
        for (let i = 0; i < 3; i++) {
          await rejection(older.commit([put("hosts", `late-${i}`, {})]), FencedError);
          await newer.commit([put("hosts", "h", { i })]);
        }
        expect(await contentsOfNext()).to.deep.equal(new Map([["hosts/h", { i: 2 }]]));
      });

      it("lets no commit of another process become visible after a claim", async function () {
        this.timeout(120_000);
        const child = startChild(location);
        await child.committed(20);
        const newer = await openClaimed("newer");
        const before = await contentsOf(newer);
        expect(await child.ended()).to.equal("fenced");
        expect(await contentsOfNext()).to.deep.equal(before);
        expectWholeCommit(before, child.last());
      });
    });

    describe("commit and load", () => {
      it("loads nothing from a new tablet", async () => {
        expect(await contentsOf(await openClaimed())).to.deep.equal(new Map());
      });

      it("accepts a commit without changes", async () => {
        const storage = await openLoaded();
        await storage.commit([]);
        expect(await reloaded(storage)).to.deep.equal(new Map());
      });

      it("applies the changes of one commit in order, the last one of a key wins", async () => {
        const storage = await openLoaded();
        await storage.commit([
          put("hosts", "a", { n: 1 }),
          put("hosts", "a", { n: 2 }),
          put("hosts", "b", {}),
          remove("hosts", "b"),
          remove("hosts", "c"),
          put("hosts", "c", { n: 3 }),
        ]);
        expect(await reloaded(storage)).to.deep.equal(
          new Map([
            ["hosts/a", { n: 2 }],
            ["hosts/c", { n: 3 }],
          ]),
        );
      });

      it("replaces whole documents and keeps tables apart", async () => {
        const storage = await openLoaded();
        await storage.commit([put("hosts", "x", { a: 1, b: 2 }), put("devices", "x", { c: 3 })]);
        await storage.commit([put("hosts", "x", { b: 4 })]);
        expect(await reloaded(storage)).to.deep.equal(
          new Map([
            ["hosts/x", { b: 4 }],
            ["devices/x", { c: 3 }],
          ]),
        );
      });

      it("deletes what is not there without complaint, even from a table that never was", async () => {
        const storage = await openLoaded();
        await storage.commit([remove("hosts", "nobody"), put("devices", "d", {})]);
        expect(await reloaded(storage)).to.deep.equal(new Map([["devices/d", {}]]));
      });

      it("gives back every shape of document", async () => {
        const storage = await openLoaded();
        const document = {
          empty: {},
          none: null,
          yes: true,
          no: false,
          text: "",
          unicode: "Zürich \u{1f4be} \u0000 \u202e \ufffd",
          numbers: [0, 1, -1, 0.1, 1e-300, 1.7976931348623157e308, 2 ** 53 - 1, -(2 ** 53 - 1)],
          list: [[], [null], { a: [{ b: "c" }] }],
          nested: { a: { b: { c: { d: [1, { e: "f" }] } } } },
          "": "empty name",
          "a.b": "name with a dot",
          $set: "name with a dollar",
          _id: "name that engines use",
          long: "x".repeat(100_000),
        };
        await storage.commit([put("hosts", "h", document)]);
        expect((await reloaded(storage)).get("hosts/h")).to.deep.equal(document);
      });

      it("keeps odd keys apart", async () => {
        const keys = [
          " ",
          "  ",
          "a",
          "A",
          "a ",
          "a/b",
          "a\u0000b",
          "a\u0000",
          "\u0000",
          "é",
          "e\u0301",
          "\u{1f4be}",
          "\uffff",
        ];
        keys.push(".", "..", "$ref", "__proto__", "k".repeat(512), "\u20ac".repeat(512), `${"k".repeat(511)}l`);
        const storage = await openLoaded();
        await storage.commit(keys.map((key) => put("hosts", key, { key })));
        const contents = await reloaded(storage);
        expect(contents).to.deep.equal(new Map(keys.map((key) => [`hosts/${key}`, { key }])));
        await storage.commit([remove("hosts", "a\u0000b"), remove("hosts", " ")]);
        expect((await reloaded(storage)).size).to.equal(keys.length - 2);
      });

      it("takes a commit of eight mebibytes, and one of many documents", async function () {
        this.timeout(120_000);
        const storage = await openLoaded();
        const large = Array.from({ length: 8 }, (_, i) =>
          put("hosts", `large-${i}`, { text: "x".repeat(2 ** 20 - 64) }),
        );
        await storage.commit(large);
        const many = Array.from({ length: 20_000 }, (_, i) => put("devices", `device-${i}`, { i }));
        await storage.commit(many);
        const contents = await reloaded(storage);
        expect(contents.size).to.equal(20_008);
        expect(contents.get("devices/device-19999")).to.deep.equal({ i: 19_999 });
        await storage.commit(many.map(({ table, key }) => remove(table, key)));
        expect((await reloaded(storage)).size).to.equal(8);
      });

      it("loads exactly the outcome of all commits, whatever they were", async function () {
        this.timeout(120_000);
        const random = randomOf(20_240_817);
        let storage = await openLoaded();
        const expected: Contents = new Map();
        for (let commit = 0; commit < 60; commit++) {
          const changes: Change[] = [];
          for (let i = Math.floor(random() * 30); i >= 0; i--) {
            const table = random() < 0.5 ? "hosts" : "devices";
            const key = `k${Math.floor(random() * 40)}`;
            if (random() < 0.3) {
              changes.push(remove(table, key));
              expected.delete(`${table}/${key}`);
            } else {
              const document = { commit, i, text: "x".repeat(Math.floor(random() * 5_000)) };
              changes.push(put(table, key, document));
              expected.set(`${table}/${key}`, document);
            }
          }
          await storage.commit(changes);
          if (commit % 20 === 19) {
            await storage.close({ handOver: true });
            storage = await openClaimed(`writer-${commit}`);
            expect(await contentsOf(storage)).to.deep.equal(expected);
          }
        }
      });

      async function reloaded(storage: TrackedStorage): Promise<Contents> {
        await storage.close({ handOver: true });
        const again = await openClaimed("reader");
        const contents = await contentsOf(again);
        await again.close({ handOver: true });
        // The test goes on with the storage it has: a closed storage can be claimed again.
        await claim(storage, "writer-again");
        await storage.load(() => {});
        return contents;
      }
    });

    it("loses nothing that was acknowledged, and shows no half commit, when its process is killed", async function () {
      this.timeout(120_000);
      let atLeast = -1;
      for (let round = 0; round < 4; round++) {
        const child = startChild(location);
        await child.committed(5 + round * 11);
        child.kill();
        await child.ended();
        expect(child.last()).to.be.greaterThan(atLeast);
        const storage = await openClaimed(`reader-${round}`);
        const contents = await contentsOf(storage);
        await storage.close({ handOver: false });
        expectWholeCommit(contents, child.last());
        atLeast = child.last();
      }
    });
  });
}

/** Tests name their writers for whoever looks; each claim is another one. */
function claim(storage: TrackedStorage, writer: string): Promise<Claim> {
  return storage.claim({ writer: `${writer}-${randomUUID()}`, address: "127.0.0.1:1" });
}

/** The child writes the same number everywhere and one document named after it. */
function expectWholeCommit(contents: Contents, acknowledged: number): void {
  const { n } = contents.get("hosts/a") as { n: number };
  expect(n).to.be.at.least(acknowledged);
  expect(contents).to.deep.equal(
    new Map<string, unknown>([
      ["hosts/a", { n }],
      ["hosts/b", { n }],
      ["devices/c", { n, text: "x".repeat((n * 997) % 20_000) }],
      [`devices/only-${n}`, { n }],
    ]),
  );
}

interface Child {
  /** Resolves when so many commits have been acknowledged. */
  committed(count: number): Promise<void>;
  /** The last acknowledged number. */
  last(): number;
  kill(): void;
  /** Resolves with "fenced" or how else it ended. */
  ended(): Promise<string>;
}

function startChild({ moduleUrl, argument }: StorageLocation): Child {
  const child: ChildProcess = spawn(process.execPath, [CHILD, moduleUrl, argument], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<string>((resolve) => {
    child.once("close", (code, signal) => resolve(code === 3 ? "fenced" : `${signal ?? code}`));
  });
  let last = -1;
  let count = 0;
  const waiting: { count: number; resolve: () => void }[] = [];
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
    last = Number(line);
    count++;
    for (const each of waiting) if (each.count <= count) each.resolve();
  });
  return {
    committed: (wanted) =>
      Promise.race([
        new Promise<void>((resolve) => waiting.push({ count: wanted, resolve })),
        ended.then((how) => Promise.reject(new Error(`the writing process ended early: ${how}`))),
      ]),
    last: () => last,
    kill: () => child.kill("SIGKILL"),
    ended: () => ended,
  };
}

function put(table: string, key: string, document: object): Change {
  return { table, key, document };
}

function remove(table: string, key: string): Change {
  return { table, key, document: null };
}

async function contentsOf(storage: TrackedStorage): Promise<Contents> {
  const contents: Contents = new Map();
  await storage.load((table, key, document) => {
    expect(contents.has(`${table}/${key}`), `${table}/${key} came twice`).to.equal(false);
    contents.set(`${table}/${key}`, document);
  });
  return contents;
}
