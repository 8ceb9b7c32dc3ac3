import { join } from "node:path";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { firstReleaseDocuments, makeFirstReleaseFolder } from "@diskmesh/tablet/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { storedSchema } from "./stored-schema.js";

describe("what a director of the first release stored", () => {
  it("is loaded, all of it", async () => {
    const folder = temporaryFolder();
    makeFirstReleaseFolder("director", join(folder, "director"));
    const storage = openStorage(folder, "director");
    await using tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
    const loaded = await tablet.read((tables) =>
      Object.entries(tables).flatMap(([table, documents]) =>
        [...(documents.entries() as Iterable<object>)].map((document) => ({ table, document })),
      ),
    );
    const stored = firstReleaseDocuments("director").map(({ table, document }) => ({ table, document }));
    expect(loaded).to.have.deep.members(stored);
  });
});
