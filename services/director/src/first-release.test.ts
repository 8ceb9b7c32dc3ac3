import { restoredLmdbBackup } from "@diskmesh/tablet/testing";
import { expect } from "chai";
import { storedSchema } from "./store/stored-schema.js";

describe("a backup of a director whose state LMDB held", () => {
  it("is restored, all of it", async () => {
    const { found, expected } = await restoredLmdbBackup("director", storedSchema);
    expect(found).to.have.length.above(0);
    expect(found).to.have.deep.members(expected);
  });
});
