import { wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

it("every method of the cpi-dispatcher -> INTERNAL for a bug alone, and for each cause that passes its own code", async () => {
  expect(
    await wrongAnswers({ role: "cpi-dispatcher", offer: addServices, callers: ["director", "operator"] }),
  ).to.deep.equal([]);
});
