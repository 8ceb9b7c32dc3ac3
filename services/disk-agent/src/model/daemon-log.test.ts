import { expect } from "chai";
import { failedRequests } from "./daemon-log.js";

const answered = (error: string, text: string) =>
  `nbd_co_send_structured_error Send structured error reply: handle = 93985510264816, error = 5 (${error}), msg = '${text}'`;
const disconnected = (text: string) =>
  `qemu-storage-daemon: Disconnect client, due to: Failed to send reply: reading from file failed: ${text}`;

describe("the log of a storage daemon", () => {
  it("names failed requests, the first one as the text", () => {
    const log = [
      answered("ENOSPC", "writing to file failed"),
      disconnected("Input/output error"),
      answered("EIO", "writing to file failed"),
      answered("EIO", "flush failed"),
      answered("EIO", "discard failed"),
      "",
    ].join("\n");
    const { counts, ...failed } = failedRequests(log) ?? {};
    expect(failed).to.deep.equal({ message: "write failed: ENOSPC", isHardware: true });
    expect([...(counts ?? [])].sort()).to.deep.equal([
      ["discard", 1],
      ["flush", 1],
      ["read", 1],
      ["write", 2],
    ]);
  });

  const rows: readonly [string, string, boolean | undefined][] = [
    ["a file system without space", answered("ENOSPC", "writing to file failed"), false],
    ["a medium error", disconnected("No data available"), true],
    ["a name of a newer release", answered("EIO", "flush failed").replace(/structured/g, "chunk"), true],
    ["a client's mistake", answered("EINVAL", "Operation past EOF; From: 9, Len: 9, Size: 9"), undefined],
    ["a client that leaves", "qemu-storage-daemon: Disconnect client, due to: Failed to read request", undefined],
    ["nothing", "", undefined],
  ];
  for (const [name, log, isHardware] of rows)
    it(`tells from hardware errors: ${name}`, () => expect(failedRequests(log)?.isHardware).to.equal(isHardware));
});
