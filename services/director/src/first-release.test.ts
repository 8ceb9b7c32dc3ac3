import { restoredBackup } from "@diskmesh/tablet/testing";
import { expect } from "chai";
import { storedSchema } from "./store/stored-schema.js";

describe("a backup of a director of 0.1.0", () => {
  it("is restored completely", async () => {
    const { found, expected } = await restoredBackup("director", storedSchema);
    expect(found).to.have.length.above(0);
    expect(found).to.have.deep.members(expected);
  });
});
