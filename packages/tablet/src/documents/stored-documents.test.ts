import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import * as z from "zod";
import { openEmbeddedStorage } from "../embedded/embedded-storage.js";
import { MongoStorage } from "../mongo/mongo-storage.js";
import { changed } from "../mongo/simulation/candidate.js";
import { idealServer } from "../mongo/testing/ideal-server.js";
import type { TabletStorage } from "../storage/storage.js";
import { Tablet } from "../tablet.js";
import { type Table, table } from "./schema.js";
import { checkOf, shapeOf } from "./shape.js";

interface Host {
  readonly id: string;
  readonly state?: string;
  readonly stateV2?: string;
}

const text = z.string();
const first = table<Host>()({
  key: ({ id }) => id,
  check: (host) => (typeof (host as Host).state === "string" ? undefined : "state: expected a string"),
});
const second = table<Host>()({
  key: ({ id }) => id,
  version: 2,
  upgrade: (host, version) => ({ id: (host as Host).id, stateV2: `${(host as Host).state} since ${version}` }),
});
const withoutUpgrade: Table<Host> = { ...second, upgrade: undefined };

const stores: Readonly<Record<string, () => () => TabletStorage>> = {
  "a folder": () => {
    const folder = temporaryFolder();
    return () => openEmbeddedStorage({ folder });
  },
  MongoDB: () => {
    const server = idealServer();
    const limits = { leaseTimeMs: 0, applyIntervalMs: 1 };
    return () => new MongoStorage({ tabletName: "registry", connect: async () => changed(server, {}), limits });
  },
};

for (const [store, makeLocation] of Object.entries(stores)) {
  describe(`documents of a tablet in ${store}`, () => {
    let location: () => TabletStorage;

    beforeEach(() => {
      location = makeLocation();
    });

    function open(hosts: Table<Host>): Promise<Tablet<{ hosts: Table<Host> }>> {
      return Tablet.open({ name: "registry", schema: { hosts }, storage: location(), address: "" });
    }

    async function contents(hosts: Table<Host>): Promise<Host[]> {
      const tablet = await open(hosts);
      try {
        return await tablet.read((tables) => [...tables.hosts.entries()]);
      } finally {
        await tablet.close();
      }
    }

    async function putAll(hosts: Table<Host>, ...documents: readonly Host[]): Promise<void> {
      const tablet = await open(hosts);
      try {
        await tablet.transact((tx) => {
          for (const document of documents) tx.hosts.put(document);
        });
      } finally {
        await tablet.close();
      }
    }

    it("keep fields added by a newer version when an older one loads and changes them", async () => {
      const older = table<Host>()({ key: ({ id }) => id, check: checkOf(z.looseObject({ id: z.string() })) });
      const shaped = {
        ...older,
        check: checkOf(shapeOf<{ id: string; state?: string }>()({ id: text, state: text.optional() })),
      };
      await putAll(older, { id: "h1", state: "ONLINE", stateV2: "since yesterday" });
      const tablet = await open(shaped);
      await tablet.transact((tx) => {
        const host = tx.hosts.get("h1");
        if (host !== undefined) tx.hosts.put({ ...host, state: "WARNING" });
      });
      await tablet.close();
      expect(await contents(older)).to.deep.equal([{ id: "h1", state: "WARNING", stateV2: "since yesterday" }]);
    });

    it("are refused when they do not have their table's shape, whether put or loaded", async () => {
      const error = await rejection(putAll(first, { id: "h1" }), TypeError);
      expect(error.message).to.equal('table hosts, document "h1": state: expected a string');
      await putAll({ ...first, check: undefined }, { id: "h1" });
      await rejection(contents(first), InvalidStateError, 'table hosts, document "h1": state: expected a string');
    });

    it("are upgraded by a newer program before it serves, and can then be changed and deleted", async () => {
      const documents = Array.from({ length: 300 }, (_, n) => ({ id: `h${n}`, state: `${n}`.padStart(3, "0") }));
      await putAll(first, ...documents);
      const tablet = await open(second);
      expect(await tablet.read(({ hosts }) => hosts.get("h7"))).to.deep.equal({ id: "h7", stateV2: "007 since 1" });
      await tablet.transact(({ hosts }) => hosts.delete("h7"));
      await tablet.transact(({ hosts }) => hosts.put({ id: "h8", stateV2: "new" }));
      await tablet.close();
      // The first load has upgraded and stored everything.
      const after = await contents(withoutUpgrade);
      expect(after.length).to.equal(299);
      expect(after.find(({ id }) => id === "h8")).to.deep.equal({ id: "h8", stateV2: "new" });
      expect(after.find(({ id }) => id === "h9")).to.deep.equal({ id: "h9", stateV2: "009 since 1" });
    });

    it("are refused by an older program, and by one without an upgrade from their version", async () => {
      await putAll(first, { id: "h1", state: "up" });
      const stuck = await rejection(contents(withoutUpgrade));
      expect(stuck.message).to.contain(
        'table hosts, document "h1": it has version 1, from which no upgrade leads to 2',
      );
      await contents(second);
      const older = await rejection(contents(first), InvalidStateError);
      expect(older.message).to.contain('document "h1": it has version 2, but this program supports at most 1');
      expect(older.message).to.contain("run the version that wrote it");
    });
  });
}
