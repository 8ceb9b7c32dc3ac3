import { readingMethods, wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

it("every method of the director -> INTERNAL for a bug alone, and for each cause that passes its own code", async () => {
  expect(await wrongAnswers({ role: "director", offer: addServices, callers: ["operator"] })).to.deep.equal([]);
});

it("what only looks is named here -> whatever else is offered may change something, and its calls are told of", () => {
  const looking = readingMethods((server) => addServices(server, () => expect.fail()));
  expect(looking).to.deep.equal([
    "diffConfig",
    "downloadLogs",
    "explain",
    "getConfig",
    "getDisk",
    "getNode",
    "getResurrection",
    "getTask",
    "getTaskOutput",
    "listAgentAuthorities",
    "listAgentCertificates",
    "listConfigs",
    "listDeployments",
    "listDisks",
    "listDrivers",
    "listEvents",
    "listInstances",
    "listLocks",
    "listMethods",
    "listOwedRemovals",
    "listPersistentDisks",
    "listPossibleOrphans",
    "listProblems",
    "listSnapshots",
    "listStemcells",
    "listTasks",
    "watchTask",
  ]);
});
