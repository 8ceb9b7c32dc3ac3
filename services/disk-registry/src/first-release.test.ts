import { openStorage, restoreBackup, restoredDocument, type Schema, type Table, Tablet } from "@diskmesh/tablet";
import { lmdbBackup } from "@diskmesh/tablet/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { storedSchema as schema } from "./stored-schema.js";

describe("a backup of a disk-registry whose state LMDB held", () => {
  it("is restored, all of it", async () => {
    const folder = temporaryFolder();
    const { file, documents: backedUp } = lmdbBackup("registry");
    const options = { file, schema, tabletName: "registry", replace: false };
    await restoreBackup({ ...options, storage: openStorage(folder, "registry") });
    const storage = openStorage(folder, "registry");
    await using tablet = await Tablet.open({ name: "registry", schema, storage, address: "" });
    const loaded = await tablet.read((tables) =>
      Object.entries(tables).flatMap(([table, documents]) =>
        Array.from(documents.entries() as Iterable<object>, (document) => ({ table, document })),
      ),
    );
    const definitions = new Map<string, Table<object>>(Object.entries(schema as Schema));
    const expected = backedUp.map(({ table, document }) => ({
      table,
      document: restoredDocument(definitions.get(table), document),
    }));
    expect(loaded).to.have.deep.members(expected);
  });
});
