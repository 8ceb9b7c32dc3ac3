import { readingMethods, wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

it("every method of the disk-agent answers a bug with INTERNAL, and other causes with their own code", async () => {
  expect(
    await wrongAnswers({
      role: "disk-agent",
      offer: addServices,
      callers: ["disk-registry", "disk-agent-h1", "director"],
    }),
  ).to.deep.equal([]);
});

it("every method outside this list of reads may change something, and is audited", () => {
  const looking = readingMethods((server) => addServices(server, () => expect.fail()));
  expect(looking).to.deep.equal(["joinMethod", "listClaims", "listDevices", "listMethods", "listRuns"]);
});
