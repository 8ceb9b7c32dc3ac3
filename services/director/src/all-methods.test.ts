import { wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

it("every method of the director -> INTERNAL for a bug alone, and for each cause that passes its own code", async () => {
  expect(await wrongAnswers({ role: "director", offer: addServices, callers: ["operator"] })).to.deep.equal([]);
});
