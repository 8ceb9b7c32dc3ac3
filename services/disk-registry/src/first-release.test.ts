import { join } from "node:path";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { firstReleaseDocuments, makeFirstReleaseFolder } from "@diskmesh/tablet/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { storedSchema as schema } from "./stored-schema.js";

describe("what a disk-registry of the first release stored", () => {
  it("is loaded, all of it", async () => {
    const folder = temporaryFolder();
    makeFirstReleaseFolder("registry", join(folder, "registry"));
    const storage = openStorage(folder, "registry");
    await using tablet = await Tablet.open({ name: "registry", schema, storage, address: "" });
    const loaded = await tablet.read((tables) =>
      Object.entries(tables).flatMap(([table, documents]) =>
        [...(documents.entries() as Iterable<object>)].map((document) => ({ table, document })),
      ),
    );
    const stored = firstReleaseDocuments("registry").map(({ table, document }) => ({ table, document }));
    expect(loaded).to.have.deep.members(stored);
  });
});
