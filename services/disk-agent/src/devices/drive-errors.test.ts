import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { type DeviceId, silentLogger } from "@diskmesh/domain";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { DeviceTable } from "./device-table.js";
import { DriveErrors, openDriveErrors } from "./drive-errors.js";

const DEVICE_BYTES = 8_192;
/** Devices by id, with the name of the drive on which they lie one behind the other. */
const DEVICES = { a: "sda", b: "sda", c: "sdb", closed: undefined };

describe("errors of drives", () => {
  let path: string;
  let log: FileHandle;
  let errors: DriveErrors;
  let noted: [DeviceId, string][];
  let lines: unknown[];

  /** Appends a record, as the kernel does: each read gets one. */
  const append = async (drive: string, sector: number) => {
    await log.write(
      `3,1,1,-;I/O error, dev ${drive}, sector ${sector} op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2\n`,
    );
  };
  const look = async () => {
    noted = [];
    const all = Object.entries(DEVICES).map(([id, name], index) => ({
      id,
      config: { offsetBytes: index * DEVICE_BYTES },
      sizeBytes: DEVICE_BYTES,
      file: { handle: name && { drive: { name, startBytes: 0 } } },
    }));
    const hardwareErrors = { note: (...each: [DeviceId, string]) => noted.push(each) };
    await errors.look({ all: () => all, hardwareErrors } as unknown as DeviceTable);
  };

  beforeEach(async () => {
    path = join(temporaryFolder(), "log");
    execFileSync("mkfifo", [path]);
    log = await open(path, "r+");
    await append("sda", 0);
    lines = [];
    errors = await DriveErrors.open({ ...silentLogger, error: (...line) => void lines.push(line) }, path);
  });
  afterEach(async () => {
    await errors.close();
    await log.close();
  });

  it("that were logged before the agent's start are left alone", async () => {
    await look();
    expect(noted).to.deep.equal([]);
  });

  it("are noted at the device whose bytes have failed, once a look, and logged", async () => {
    await append("sda", 16);
    await look();
    const message = "the kernel has logged: I/O error of drive sda at sector 16 (WRITE)";
    expect(noted).to.deep.equal([["b", message]]);
    expect(lines).to.deep.equal([[{ deviceId: "b", errors: 1, error: message }, "drive has failed I/O"]]);
    await look();
    expect(noted).to.deep.equal([]);
  });

  it("of drives of others are noted nowhere", async () => {
    await append("sdc", 16);
    await look();
    expect(noted).to.deep.equal([]);
    expect(lines).to.deep.equal([]);
  });

  it("stay unseen where the log cannot be read, which is told with the cure", async () => {
    const nowhere = join(temporaryFolder(), "none");
    const reason = await openDriveErrors(silentLogger, nowhere);
    expect(reason).to.match(/none cannot be read: ENOENT.*: give the agent CAP_SYSLOG, and in a container the host's /);
    writeFileSync(nowhere, "");
    const opened = await openDriveErrors(silentLogger, nowhere);
    if (typeof opened === "string") throw new Error(opened);
    await opened.close();
  });
});
