import { readingMethods, wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

it("every method of the cpi-dispatcher -> INTERNAL only for a bug, and a code of its own for each transient cause", async () => {
  expect(
    await wrongAnswers({ role: "cpi-dispatcher", offer: addServices, callers: ["director", "operator"] }),
  ).to.deep.equal([]);
});

it("read-only methods are listed here -> every other method may change something, and its calls are audited", () => {
  const looking = readingMethods((server) => addServices(server, () => expect.fail()));
  expect(looking).to.deep.equal([
    "calculateVmCloudProperties",
    "getCapacity",
    "getDisks",
    "hasDisk",
    "hasVm",
    "info",
    "listCpis",
    "listVms",
    "watchCpiLog",
  ]);
});
