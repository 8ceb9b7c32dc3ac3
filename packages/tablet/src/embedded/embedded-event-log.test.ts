import { temporaryFolder } from "@diskmesh/testkit";
import { eventLogContract } from "../contract/event-log-contract.js";
import { openEmbeddedEventLog } from "./embedded-event-log.js";

eventLogContract("embedded", async () => {
  const folder = temporaryFolder();
  return { open: () => openEmbeddedEventLog({ folder }), remove: async () => {} };
});
