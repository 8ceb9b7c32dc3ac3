import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { backupPieces } from "../backup/backup-file.js";
import { restoreBackup } from "../backup/restore.js";
import { table } from "../documents/schema.js";
import { stateSumOf } from "../documents/state-sum.js";
import { examineMongo } from "../mongo/examine.js";
import { MongoStorage } from "../mongo/mongo-storage.js";
import { changed } from "../mongo/simulation/candidate.js";
import { idealServer } from "../mongo/testing/ideal-server.js";
import { examineStorage, openStorage } from "../open-storage.js";
import type { TabletStorage } from "../storage/storage.js";
import { Tablet } from "../tablet.js";
import type { Examined } from "./examination.js";
import { examineBackup } from "./examine-backup.js";

interface Host {
  readonly id: string;
  readonly n: number;
}

const schema = {
  hosts: table<Host>()({ key: ({ id }) => id, check: (host) => ("n" in host ? undefined : "n: expected a number") }),
};
const HOSTS = 20;
const NAME = "registry";
const VIEW = "registry.hosts";
const LOG = "registry.log";

function open(storage: TabletStorage): Promise<Tablet<typeof schema>> {
  return Tablet.open({ name: NAME, schema, storage, address: "127.0.0.1:1" });
}

async function fill(tablet: Tablet<typeof schema>): Promise<void> {
  await tablet.transact(({ hosts }) => {
    for (let n = 0; n < HOSTS; n++) hosts.put({ id: `h${n}`, n });
  });
}

/** Restores the salvaged documents into a folder; resolves with the keys that a leader finds there. */
async function restoredKeys({ claim, documents }: Examined): Promise<string[]> {
  const folder = temporaryFolder();
  const file = join(folder, "backup");
  writeFileSync(file, [...backupPieces({ tabletName: NAME, ...claim, createdAtMs: 1 }, documents)].join(""));
  await restoreBackup({ file, schema, storage: openStorage(folder, NAME), tabletName: NAME, replace: false });
  await using tablet = await open(openStorage(folder, NAME));
  expect(tablet.id).to.equal(claim.tabletId);
  expect(tablet.generation).to.be.above(claim.generation + 2 ** 20);
  return tablet.read(({ hosts }) => [...hosts.entries()].map(({ id }) => id));
}

const hosts = (...without: readonly number[]): string[] =>
  Array.from({ length: HOSTS }, (_, n) => n)
    .filter((n) => !without.includes(n))
    .map((n) => `h${n}`)
    .sort();

describe("examining a store", () => {
  describe("on MongoDB", () => {
    let server: ReturnType<typeof idealServer>;
    let tabletId: string;

    beforeEach(async () => {
      server = idealServer();
      const tablet = await open(storage({ keptLogMs: 0 }));
      tabletId = tablet.id;
      await fill(tablet);
      await eventually(async () => expect(await server.find(LOG, { kinds: ["commit"], limit: 9 })).to.have.length(0));
      await tablet.close();
    });

    const storage = (limits: object): TabletStorage =>
      new MongoStorage({
        tabletName: NAME,
        connect: async () => changed(server, {}),
        limits: { leaseTimeMs: 500, safeLeaseTimeMs: 400, applyIntervalMs: 1, ...limits },
      });
    const examine = (): Promise<Examined> =>
      examineMongo({ server, tabletName: NAME, schema, clock: systemClock, leaseTimeMs: 1_500 });
    const edit = (id: string, set: object) => server.update(VIEW, id, {}, { set: { ...set }, increment: "edits" });

    const damages: readonly {
      readonly title: string;
      readonly damage: () => Promise<unknown>;
      readonly problem: RegExp;
      readonly without: readonly number[];
    }[] = [
      {
        title: "an edited document",
        damage: () => edit("h3", { n: -1 }),
        problem: /^table hosts, document "h3": a program other than diskmesh changed it; left out$/,
        without: [3],
      },
      {
        title: "an edited document without its checksum",
        damage: () => edit("h3", { n: -1, _sum: undefined }),
        problem: /^table hosts, document "h3": a program other than diskmesh changed it; left out$/,
        without: [3],
      },
      {
        title: "a document of a later copy",
        damage: () => edit("h3", { _seq: 1e6 }),
        problem: /^table hosts, document "h3": it is newer than the log, so it comes from another copy; left out$/,
        without: [3],
      },
      {
        title: "a deleted document",
        damage: () => server.delete(VIEW, { after: "h18", below: "h2" }),
        problem: /^table hosts: 1 documents are missing, and their keys are not known$/,
        without: [19],
      },
      {
        title: "a document that somebody added",
        damage: () => server.insert(VIEW, { _id: "other", n: 1 }),
        problem: /^table hosts, document "other": diskmesh did not write it; left out$/,
        without: [],
      },
    ];
    for (const { title, damage, problem, without } of damages) {
      it(`names ${title}, and salvages the others`, async () => {
        await damage();
        const examined = await examine();
        expect(examined.problems).to.have.length(1);
        expect(examined.problems[0]).to.match(problem);
        expect(examined.claim.tabletId).to.equal(tabletId);
        expect(await restoredKeys(examined)).to.deep.equal(hosts(...without));
      });
    }

    it("reports an undamaged store as whole, also while changes are only in its log", async () => {
      expect((await examine()).problems).to.deep.equal([]);
      const tablet = await open(storage({ applyIntervalMs: 1e9 }));
      await tablet.transact((tx) => {
        tx.hosts.delete("h3");
        tx.hosts.put({ id: "h4", n: -4 });
      });
      await tablet.close();
      const { problems, documents } = await examine();
      expect(problems).to.deep.equal([]);
      expect(documents.map(({ key }) => key).sort()).to.deep.equal(hosts(3));
      expect(documents.find(({ key }) => key === "h4")?.document).to.deep.equal({ id: "h4", n: -4 });
    });

    it("names a document that a newer version wrote", async () => {
      const { problems } = await examineMongo({
        server,
        tabletName: NAME,
        schema: {
          hosts: { ...schema.hosts, check: (host: object) => ((host as Host).id === "h5" ? "id: unknown" : undefined) },
        },
        clock: systemClock,
        leaseTimeMs: 1_500,
      });
      expect(problems).to.deep.equal(['table hosts, document "h5": id: unknown; left out']);
    });

    it("gives a new identity to a store that lost its log", async () => {
      await server.delete(LOG, {});
      const examined = await examine();
      expect(examined.problems.join()).to.contain("AdoptFleet");
      expect(examined.claim.tabletId).not.to.equal(tabletId);
      expect(await restoredKeys(examined)).to.deep.equal(hosts());
    });

    it("is refused while a leader is alive, but not after it was killed", async () => {
      const renewing = await open(storage({}));
      expect((await rejection(examine(), UnavailableError)).message).to.contain("127.0.0.1:1 leads");
      await renewing.close();
      await server.update("tablets", NAME, {}, { set: { writer: "killed" }, increment: "renewals" });
      expect((await examine()).problems).to.deep.equal([]);
    });
  });

  describe("in a folder", () => {
    let folder: string;
    const examine = (): Promise<Examined> => examineStorage(folder, NAME, { schema, leaseTimeMs: 0, withGaps: false });

    beforeEach(async () => {
      folder = temporaryFolder();
      await using tablet = await open(openStorage(folder, NAME));
      await fill(tablet);
      await rejection(examine(), UnavailableError);
    });

    it("reports an undamaged store as whole", async () => {
      const examined = await examine();
      expect(examined.problems).to.deep.equal([]);
      expect(await restoredKeys(examined)).to.deep.equal(hosts());
    });

    it("has the same sum in a folder, in a backup of it and in a database, and another one after any change", async () => {
      const file = join(folder, "backup");
      {
        await using tablet = await open(openStorage(folder, NAME));
        const pieces: string[] = [];
        for await (const piece of tablet.backup(1)) pieces.push(piece);
        writeFileSync(file, pieces.join(""));
      }
      const sum = stateSumOf((await examine()).documents);
      expect(sum).to.match(/^[0-9a-f]{16}$/);
      const backup = await examineBackup(file, schema);
      expect([backup.problems, stateSumOf(backup.documents)]).to.deep.equal([[], sum]);
      const server = idealServer();
      const onServer = await open(new MongoStorage({ tabletName: NAME, connect: async () => changed(server, {}) }));
      await fill(onServer);
      await onServer.close();
      const mongo = await examineMongo({ server, tabletName: NAME, schema, clock: systemClock, leaseTimeMs: 1 });
      expect(stateSumOf([...mongo.documents].reverse())).to.equal(sum);
      await using tablet = await open(openStorage(folder, NAME));
      await tablet.transact((tx) => tx.hosts.put({ id: "h3", n: 4 }));
      await tablet.close();
      expect(stateSumOf((await examine()).documents)).not.to.equal(sum);
    });

    it("takes the last commit before a line that was changed", async () => {
      const [journal] = readdirSync(join(folder, NAME)).filter((name) => name.startsWith("journal."));
      const file = join(folder, NAME, journal as string);
      const before = readFileSync(file);
      {
        await using tablet = await open(openStorage(folder, NAME));
        await tablet.transact((tx) => tx.hosts.put({ id: "h20", n: 20 }));
      }
      const [, second] = readdirSync(join(folder, NAME)).filter((name) => name.startsWith("journal."));
      const bytes = readFileSync(join(folder, NAME, second as string));
      bytes.write('"n":21}', bytes.indexOf('"n":20}'));
      writeFileSync(join(folder, NAME, second as string), bytes);
      const examined = await examine();
      expect(readFileSync(file)).to.deep.equal(before);
      expect(examined.problems).to.have.length(1);
      expect(examined.problems[0]).to.match(
        /is damaged at byte \d+: the line there has another checksum; the data after/,
      );
      expect(await restoredKeys(examined)).to.deep.equal(hosts());
    });
  });
});
