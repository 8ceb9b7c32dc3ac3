import { expect } from "chai";
import { CpiLog } from "./cpi-log.js";

const LIMITS = { maxLogWatchers: 10, maxLogLines: 1_000, maxLogBytesPerReader: 4_000, maxLogBytes: 10_000 };
const LINE = "é".repeat(500);

describe("what CPIs say, while nobody reads it", () => {
  /** Says so many lines in a call that nobody watches yet, and returns what whoever then comes gets. */
  async function early(log: CpiLog, logId: string, lines: number): Promise<string[]> {
    const read: string[] = [];
    await log.during(logId, async (onLine) => {
      for (let i = 0; i < lines; i++) onLine(LINE);
      const stop = new AbortController();
      for await (const line of log.watch(logId, stop.signal)) {
        read.push(line);
        if (read.length === Math.min(lines, 4) + (lines > 4 ? 1 : 0)) stop.abort();
      }
    });
    return read;
  }

  it("is kept up to a number of bytes, and more is counted", async () => {
    const log = new CpiLog(LIMITS);
    const read = await early(log, "a", 10);
    expect(read).to.deep.equal([LINE, LINE, LINE, LINE, "[6 lines were dropped: nobody read them in time]"]);
  });

  it("is kept up to a number of bytes of all readers, and forgotten with its call", async () => {
    const log = new CpiLog(LIMITS);
    const calls = ["a", "b", "c"].map((logId) => {
      let end = () => {};
      const ended = new Promise<void>((resolve) => {
        end = resolve;
      });
      const call = log.during(logId, (onLine) => {
        for (let i = 0; i < 4; i++) onLine(LINE);
        return ended;
      });
      return { logId, end, call };
    });
    const third = log.watch("c", AbortSignal.timeout(5_000));
    expect((await third.next()).value).to.equal(LINE);
    expect((await third.next()).value).to.equal(LINE);
    expect((await third.next()).value).to.equal("[2 lines were dropped: nobody read them in time]");
    await third.return(undefined);
    for (const { end, call } of calls) {
      end();
      await call;
    }
    expect(await early(log, "d", 4)).to.deep.equal([LINE, LINE, LINE, LINE]);
  });
});
