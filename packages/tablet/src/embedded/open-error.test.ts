import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { openEmbeddedStorage } from "./embedded-storage.js";
import { openEmbeddedEventLog } from "./events/embedded-event-log.js";
import { isNoDamage, openError } from "./open-error.js";
import { PowerCutFiles } from "./testing/power-cut-files.js";

const FOLDER = "/state/registry";
const put = (key: string) => [{ table: "hosts", key, document: { key }, version: 1, previous: null }];

describe("a start that the operating system fails", () => {
  async function start(files: PowerCutFiles): Promise<void> {
    const storage = openEmbeddedStorage({ folder: FOLDER, files, exclusive: false, journalsBytesMin: 100 });
    try {
      await storage.claim({ writer: "writer", address: "" });
      await storage.load(
        () => {},
        async () => [],
      );
      const { callsUntilError } = files;
      files.callsUntilError = Number.POSITIVE_INFINITY;
      for (const key of ["a", "b"]) await storage.commit(put(key));
      files.callsUntilError = callsUntilError;
    } finally {
      await storage.close({ handOver: true });
    }
  }

  for (const code of ["EMFILE", "EACCES", "EIO"])
    it(`names ${code} at every call of a start, and asks for no backup`, async () => {
      let failed = 0;
      for (let call = 0, isReached = true; isReached; call++) {
        const files = new PowerCutFiles();
        await start(files);
        Object.assign(files, { errorCode: code, callsUntilError: call });
        const error = await start(files).catch((failure: unknown) => failure);
        isReached = files.callsUntilError < 0;
        if (!(error instanceof Error)) continue;
        failed++;
        expect(error, `call ${call}`).to.be.instanceOf(UnavailableError);
        expect(error.message, `call ${call}`).to.contain(code).and.to.contain(FOLDER);
        expect(error.message, `call ${call}`).not.to.contain("backup");
      }
      expect(failed).to.be.above(5);
    });

  it("names the limit of open files when an event log is opened", async () => {
    const files = Object.assign(new PowerCutFiles(), { errorCode: "EMFILE", callsUntilError: 0 });
    const log = openEmbeddedEventLog({ folder: "/state/events", files, exclusive: false });
    const error = await log.append("events", ["line"]).catch((failure: unknown) => failure);
    expect(error).to.be.instanceOf(UnavailableError);
    expect((error as Error).message)
      .to.contain("EMFILE")
      .and.to.contain("ulimit -n");
  });

  it("is told from damage and from a folder that is none", () => {
    const withCode = (code: string) => Object.assign(new Error(`${code}: a call failed`), { code });
    expect(isNoDamage(withCode("EMFILE"))).to.equal(true);
    for (const error of [withCode("EIO"), withCode("ENOTDIR"), new InvalidStateError("it is damaged")])
      expect(isNoDamage(error), error.message).to.equal(false);
    const refused = openError(withCode("ENOTDIR"), "tablet", FOLDER);
    expect(refused).to.be.instanceOf(InvalidStateError);
    expect((refused as Error).message).to.contain("configure another folder");
  });
});
