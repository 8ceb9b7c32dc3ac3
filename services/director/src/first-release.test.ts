import { join } from "node:path";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { firstReleaseDocuments, makeFirstReleaseFolder } from "@diskmesh/tablet/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Disk } from "./model/disk.js";
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
    const withoutIds = loaded.map(({ table, document }) => {
      if (table !== "disks") return { table, document };
      const { attachmentId, instanceId, ...rest } = document as Disk;
      expect(attachmentId).to.match(instanceId === "" ? /^$/ : /^[0-9a-f-]{36}$/, "an attachment's id, as of now");
      return { table, document: { instanceId, ...rest } };
    });
    expect(withoutIds).to.have.deep.members(stored);
    const [attached] = await tablet.read((tables) => [...tables.disks.entries()]);
    await tablet.close();
    await using again = await Tablet.open({
      name: "director",
      schema: storedSchema,
      storage: openStorage(folder, "director"),
      address: "",
    });
    expect(await again.read((tables) => [...tables.disks.entries()])).to.deep.equal([attached], "the same id for good");
  });
});
