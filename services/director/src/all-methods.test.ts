import { readingMethods, wrongAnswers } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

it("every method of the director -> INTERNAL only for a bug, and a code of its own for each transient cause", async () => {
  expect(await wrongAnswers({ role: "director", offer: addServices, callers: ["operator"] })).to.deep.equal([]);
});

it("read-only methods are listed here -> every other method may change something, and its calls are audited", () => {
  const looking = readingMethods((server) => addServices(server, () => expect.fail()));
  expect(looking).to.deep.equal([
    "diffConfig",
    "downloadLogs",
    "explain",
    "getConfig",
    "getDynamicDisk",
    "getDynamicDiskCapacity",
    "getNode",
    "getResurrection",
    "getTask",
    "getTaskOutput",
    "listAgentAuthorities",
    "listAgentCertificates",
    "listConfigs",
    "listDeployments",
    "listDrivers",
    "listDynamicDisks",
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
    "listTroubles",
    "reportCsiDriver",
    "watchTask",
  ]);
});
