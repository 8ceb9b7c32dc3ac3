import { leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { eventLogContract } from "../contract/event-log-contract.js";
import { storageContract } from "../contract/storage-contract.js";
import { openMongoEventLog } from "./open-mongo.js";
import { type DocumentDatabase, documentDatabase } from "./testing/document-database.js";
import { databaseUrl, newLocation, newTabletName, removeTablet } from "./testing/test-location.js";

describe("MongoDB", () => {
  let server: DocumentDatabase;

  before(async function () {
    leaveToVerify(this);
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    server = found;
  });

  storageContract("MongoDB", async () => newLocation(server.url));

  eventLogContract("MongoDB", async () => {
    const [url, tabletName] = [databaseUrl(server.url), newTabletName()];
    return {
      open: () => openMongoEventLog({ url, tabletName }),
      remove: () => removeTablet(url, tabletName),
    };
  });
});
