import { wrongAnswers } from "@diskmesh/testkit";
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
