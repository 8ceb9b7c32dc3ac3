import { expect } from "chai";
import {
  daemonArguments,
  daemonFiles,
  sessionOfPidFile,
  throttleLimits,
  vmdkDescriptor,
  whyNotConcatenated,
} from "./daemon-arguments.js";

const MIB_BYTES = 1024 * 1024;
const part = (fd: number, offsetBytes = 0) => ({ fd, isBlockDevice: fd % 2 === 0, offsetBytes, sizeBytes: MIB_BYTES });

describe("the arguments of a storage daemon", () => {
  const files = daemonFiles(7);
  const nodesOf = (args: readonly string[]) =>
    args.flatMap((each, index) => (args[index - 1] === "--blockdev" ? [JSON.parse(each)] : []));

  it("give one device by its descriptor, offset and size", () => {
    const [disk] = nodesOf(daemonArguments({ diskId: "d", parts: [part(4, 512)], readOnly: false }, files));
    expect(disk.file).to.deep.include({ driver: "raw", offset: 512, size: MIB_BYTES });
    expect(disk.file.file).to.deep.include({ driver: "host_device", filename: "/proc/self/fd/4", aio: "threads" });
  });

  it("make a read-only disk writable for no client", () => {
    const args = daemonArguments({ diskId: "d", parts: [part(3)], readOnly: true }, files);
    const exports = args.filter((each) => each.includes('"type":"nbd"')).map((each) => JSON.parse(each));
    expect(exports.map(({ name, writable }) => [name, writable])).to.deep.equal([
      ["", false],
      ["d", false],
    ]);
  });

  it("name a remote device's key by its folder, end at the disk's size, and let I/O wait for the device", () => {
    const remote = {
      host: "h",
      port: 1,
      identity: "a/7",
      exportName: "a/7@boot",
      sizeBytes: 4096,
      ioTimeoutMs: 30_000,
    };
    const args = daemonArguments({ diskId: "d", parts: remote, readOnly: false }, files);
    const [disk] = nodesOf(args);
    expect(disk.file).to.include({ driver: "raw", size: 4096 });
    expect(disk.file.file).to.deep.include({ driver: "nbd", export: "a/7@boot", "reconnect-delay": 30 });
    expect(args.join(" ")).to.include(`"dir":"${files.keyFolder}","username":"a/7"`);
  });

  it("join several devices by a descriptor in sectors", () => {
    const text = vmdkDescriptor([part(3), part(4, 1024)]);
    expect(text).to.include('RW 2048 FLAT "/proc/self/fd/3" 0\nRW 2048 FLAT "/proc/self/fd/4" 2\n');
  });

  const rows: readonly [string, { offsetBytes: number; sizeBytes: number; fileName: string }[], RegExp | undefined][] =
    [
      ["one device of odd size", [{ offsetBytes: 1, sizeBytes: 7, fileName: "a" }], undefined],
      [
        "two files",
        [
          { offsetBytes: 0, sizeBytes: 512, fileName: "a" },
          { offsetBytes: 512, sizeBytes: 512, fileName: "b" },
        ],
        undefined,
      ],
      [
        "one file twice",
        [
          { offsetBytes: 0, sizeBytes: 512, fileName: "a" },
          { offsetBytes: 512, sizeBytes: 512, fileName: "a" },
        ],
        /same file/,
      ],
      [
        "half a sector",
        [
          { offsetBytes: 0, sizeBytes: 256, fileName: "a" },
          { offsetBytes: 0, sizeBytes: 512, fileName: "b" },
        ],
        /whole sectors/,
      ],
    ];
  for (const [title, parts, why] of rows)
    it(`are ${why === undefined ? "possible" : "refused"} for ${title}`, () => {
      const whyNot = whyNotConcatenated(parts);
      if (why === undefined) expect(whyNot).to.equal(undefined);
      else expect(whyNot).to.match(why);
    });

  it("set every limit, so that none of the former ones stays", () => {
    const none = throttleLimits(undefined);
    expect(Object.values(none)).to.deep.equal(Object.keys(none).map(() => 0));
    const limits = { readIops: 100, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 5, burstSeconds: 3 };
    expect(throttleLimits(limits)).to.deep.include({
      "iops-read": 100,
      "iops-read-max": 300,
      "bps-write-max": 15,
      "iops-write": 0,
    });
  });

  it("name a session's files, of which only the pid file tells its session", () => {
    const names = Object.values(files);
    expect(names.map(sessionOfPidFile).filter((number) => number !== undefined)).to.deep.equal([7]);
    expect(sessionOfPidFile("session-x.pid")).to.equal(undefined);
  });
});
