import { readingMethods, wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

it("every method of the cpi-dispatcher -> INTERNAL for a bug alone, and for each cause that passes its own code", async () => {
  expect(
    await wrongAnswers({ role: "cpi-dispatcher", offer: addServices, callers: ["director", "operator"] }),
  ).to.deep.equal([]);
});

it("what only looks is named here -> whatever else is offered may change something, and its calls are told of", () => {
  const looking = readingMethods((server) => addServices(server, () => expect.fail()));
  expect(looking).to.deep.equal([
    "calculateVmCloudProperties",
    "getDisks",
    "hasDisk",
    "hasVm",
    "info",
    "listCpis",
    "listVms",
    "watchCpiLog",
  ]);
});
