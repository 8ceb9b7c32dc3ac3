import { expect } from "chai";
import type { Change } from "../documents/schema.js";
import type { TrackedStorage } from "../testing/tracked-storage.js";
import { randomOf } from "./random.js";
import { claim, contentsOf, put, remove, type StorageClients } from "./storage-clients.js";
import type { Contents } from "./storage-location.js";

/** Contract of commits: a load returns exactly the committed state. */
export function commitContract(clients: StorageClients): void {
  describe("commit and load", () => {
    it("loads nothing from a new tablet", async () => {
      expect(await contentsOf(await clients.openClaimed())).to.deep.equal(new Map());
    });

    it("accepts a commit without changes", async () => {
      const storage = await clients.openLoaded();
      await storage.commit([]);
      expect(await reloaded(storage)).to.deep.equal(new Map());
    });

    it("applies the changes of one commit in order; the last change of a key wins", async () => {
      const storage = await clients.openLoaded();
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
      const storage = await clients.openLoaded();
      await storage.commit([put("hosts", "x", { a: 1, b: 2 }), put("devices", "x", { c: 3 })]);
      await storage.commit([put("hosts", "x", { b: 4 })]);
      expect(await reloaded(storage)).to.deep.equal(
        new Map([
          ["hosts/x", { b: 4 }],
          ["devices/x", { c: 3 }],
        ]),
      );
    });

    it("deletes a missing document without an error, even from an unknown table", async () => {
      const storage = await clients.openLoaded();
      await storage.commit([remove("hosts", "nobody"), put("devices", "d", {})]);
      expect(await reloaded(storage)).to.deep.equal(new Map([["devices/d", {}]]));
    });

    it("returns every shape of document unchanged", async () => {
      const storage = await clients.openLoaded();
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
      const storage = await clients.openLoaded();
      await storage.commit(keys.map((key) => put("hosts", key, { key })));
      const contents = await reloaded(storage);
      expect(contents).to.deep.equal(new Map(keys.map((key) => [`hosts/${key}`, { key }])));
      await storage.commit([remove("hosts", "a\u0000b"), remove("hosts", " ")]);
      expect((await reloaded(storage)).size).to.equal(keys.length - 2);
    });

    it("accepts a commit of eight mebibytes, and one of many documents", async () => {
      const storage = await clients.openLoaded();
      const large = Array.from({ length: 8 }, (_, i) => put("hosts", `large-${i}`, { text: "x".repeat(2 ** 20 - 64) }));
      await storage.commit(large);
      const many = Array.from({ length: 20_000 }, (_, i) => put("devices", `device-${i}`, { i }));
      await storage.commit(many);
      const contents = await reloaded(storage);
      expect(contents.size).to.equal(20_008);
      expect(contents.get("devices/device-19999")).to.deep.equal({ i: 19_999 });
      await storage.commit(many.map(({ table, key }) => remove(table, key)));
      expect((await reloaded(storage)).size).to.equal(8);
    });

    it("loads exactly the result of any sequence of commits", async () => {
      const random = randomOf(20_240_817);
      let storage = await clients.openLoaded();
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
          storage = await clients.openClaimed(`writer-${commit}`);
          expect(await contentsOf(storage)).to.deep.equal(expected);
        }
      }
    });

    async function reloaded(storage: TrackedStorage): Promise<Contents> {
      await storage.close({ handOver: true });
      const again = await clients.openClaimed("reader");
      const contents = await contentsOf(again);
      await again.close({ handOver: true });
      // A closed storage can be claimed again.
      await claim(storage, "writer-again");
      await storage.load(() => {});
      return contents;
    }
  });
}
