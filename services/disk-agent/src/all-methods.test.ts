import { methodsThatLook, wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

it("every method of the disk-agent -> INTERNAL for a bug alone, and for each cause that passes its own code", async () => {
  expect(
    await wrongAnswers({
      role: "disk-agent",
      offer: addServices,
      callers: ["disk-registry", "disk-agent-h1", "director"],
    }),
  ).to.deep.equal([]);
});

it("what only looks is named here -> whatever else is offered may change something, and its calls are told of", () => {
  const looking = methodsThatLook((server) => addServices(server, () => expect.fail()));
  expect(looking).to.deep.equal(["blockIo", "joinMethod", "listDevices", "listMethods"]);
});
