import { expect } from "chai";
import { CpiLog } from "./cpi-log.js";

const LIMITS = { maxLogWatchers: 10, maxLogLinesPerReader: 1_000, maxLogBytesPerReader: 4_000, maxLogBytes: 10_000 };
const LINE = "é".repeat(500);

describe("log lines of CPIs without a reader", () => {
  /** Writes lines in a call without a watcher, then watches and returns the received lines. */
  async function early(log: CpiLog, logId: string, lines: number): Promise<string[]> {
    const read: string[] = [];
    await log.during({ logId, directorId: "d" }, async (onLine) => {
      for (let i = 0; i < lines; i++) onLine(LINE);
      const stop = new AbortController();
      for await (const { line } of log.watch({ logId }, stop.signal)) {
        read.push(line);
        if (read.length === Math.min(lines, 4) + (lines > 4 ? 1 : 0)) stop.abort();
      }
    });
    return read;
  }

  it("are kept up to a number of bytes; further lines are counted", async () => {
    const log = new CpiLog(LIMITS);
    const read = await early(log, "a", 10);
    expect(read).to.deep.equal([LINE, LINE, LINE, LINE, "[6 lines were dropped: nobody read them in time]"]);
  });

  it("are kept up to a number of bytes of all readers, and dropped with their call", async () => {
    const log = new CpiLog(LIMITS);
    const calls = ["a", "b", "c"].map((logId) => {
      let end = () => {};
      const ended = new Promise<void>((resolve) => {
        end = resolve;
      });
      const call = log.during({ logId, directorId: "d" }, (onLine) => {
        for (let i = 0; i < 4; i++) onLine(LINE);
        return ended;
      });
      return { logId, end, call };
    });
    const third = log.watch({ logId: "c" }, AbortSignal.timeout(5_000));
    expect((await third.next()).value?.line).to.equal(LINE);
    expect((await third.next()).value?.line).to.equal(LINE);
    expect((await third.next()).value?.line).to.equal("[2 lines were dropped: nobody read them in time]");
    await third.return(undefined);
    for (const { end, call } of calls) {
      end();
      await call;
    }
    expect(await early(log, "d", 4)).to.deep.equal([LINE, LINE, LINE, LINE]);
  });

  it("reach the watchers of their director, with limits per log id", async () => {
    const log = new CpiLog(LIMITS);
    const stop = new AbortController();
    const read: string[] = [];
    const said = (directorId: string, logId: string, lines: number) =>
      log.during({ logId, directorId }, async (onLine) => {
        for (let i = 0; i < lines; i++) onLine(LINE);
      });
    const watching = (async () => {
      for await (const { logId, line } of log.watch({ directorId: "d" }, stop.signal)) {
        read.push(`${logId} ${line === LINE ? "line" : line}`);
        if (read.length === 7) stop.abort();
      }
    })();
    await Promise.all([said("d", "a", 10), said("other", "b", 1), said("d", "c", 2)]);
    await watching;
    const dropped = "a [6 lines were dropped: nobody read them in time]";
    expect(read).to.deep.equal(["a line", "a line", "a line", "a line", dropped, "c line", "c line"]);
  });

  it("are kept for a watcher of their director that arrives late", async () => {
    const log = new CpiLog(LIMITS);
    await log.during({ logId: "a", directorId: "d" }, async (onLine) => {
      onLine("early");
      const first = await log.watch({ directorId: "d" }, AbortSignal.timeout(5_000)).next();
      expect(first.value).to.deep.equal({ logId: "a", line: "early" });
    });
  });
});
