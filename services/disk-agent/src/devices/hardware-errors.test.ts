import { truncateSync } from "node:fs";
import { join } from "node:path";
import type { DeviceId } from "@diskmesh/domain";
import { expect } from "chai";
import { hardwareErrors, withoutHardwareErrors } from "../model/memory.js";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";

const SIZE = 16 * 4096;
const EIO = Object.assign(new Error("EIO: i/o error, fsync"), { code: "EIO" });

describe("errors of I/O", () => {
  let fixture: DeviceFixture;
  const problem = (id = "a") => fixture.device(id).problem;
  const untold = () => [...hardwareErrors(fixture.ledger.memory)];
  const write = () => fixture.device("a").write(1, 0, Buffer.alloc(4096), { fua: true });
  const resize = (name: string, sizeBytes: number) => truncateSync(join(fixture.folder, name), sizeBytes);
  /** As a rescan does. */
  const look = async (id: string) => {
    await fixture.device(id).file.look();
    fixture.device(id).retry();
  };
  const failed = (work: Promise<unknown>) => work.then(() => expect.fail("it succeeded"), String);

  beforeEach(async () => {
    fixture = new DeviceFixture([
      { id: "a", file: "a", sizeBytes: SIZE },
      { id: "s1", file: "shared", sizeBytes: SIZE / 2 },
      { id: "s2", file: "shared", offsetBytes: SIZE / 2, sizeBytes: SIZE / 2 },
    ]);
    for (const name of ["a", "shared"]) makeDeviceFile(fixture.folder, name, SIZE);
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1);
  });

  afterEach(() => fixture.stop());

  it("of the hardware -> ERROR over detach and attach, until the registry was told", async () => {
    fixture.files.failNextSync = EIO;
    await failed(write());
    expect(problem()).to.deep.equal({ level: "ERROR", message: "I/O on device a failed: EIO: i/o error, fsync" });
    expect(untold()).to.deep.equal([["a", "I/O on device a failed: EIO: i/o error, fsync"]]);
    await fixture.order("detach", "a", 2);
    await fixture.order("attach", "a", 3);
    expect(problem()?.level).to.equal("ERROR");
    fixture.ledger.remember(withoutHardwareErrors(fixture.ledger.memory, new Map(untold())));
    expect(untold()).to.deep.equal([]);
    expect(problem(), "the registry remembers it").to.equal(undefined);
  });

  it("of the hardware, met by a probe -> the same; another one than was told is kept", async () => {
    fixture.files.failNextRead = EIO;
    await fixture.device("a").probe(0);
    expect(untold()).to.deep.equal([["a", "reading block 0 of device a failed: EIO: i/o error, fsync"]]);
    const told = new Map([["a" as DeviceId, "an earlier one"]]);
    fixture.ledger.remember(withoutHardwareErrors(fixture.ledger.memory, told));
    expect(untold()).to.have.length(1);
  });

  it("of anything else -> ERROR until something succeeds", async () => {
    fixture.files.failNextRead = Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC" });
    await failed(fixture.device("a").read(1, 0, 4096));
    expect(untold()).to.deep.equal([]);
    expect(problem()?.message).to.match(/ENOSPC/);
    await fixture.device("a").read(1, 0, 4096);
    expect(problem()).to.equal(undefined);
  });

  it("a held file that is cut off -> ERROR, and well again by itself once it is whole", async () => {
    resize("a", SIZE / 2);
    await look("a");
    expect(await failed(fixture.device("a").read(1, SIZE - 4096, 4096))).to.match(/the file ends at byte/);
    expect(problem()?.level).to.equal("ERROR");
    resize("a", SIZE);
    await look("a");
    await fixture.device("a").probe(0.9);
    expect(problem()).to.equal(undefined);
    await fixture.device("a").read(1, SIZE - 4096, 4096);
  });

  it("a file too short to be attached -> attached by itself once it is whole", async () => {
    resize("shared", SIZE / 4);
    expect(await fixture.order("attach", "s2", 2)).to.equal("io_error");
    expect(problem("s2")?.message).to.match(/too short/);
    resize("shared", SIZE);
    await look("s2");
    expect(await fixture.order("attach", "s2", 2)).to.be.oneOf(["done", "already"]);
    expect(problem("s2")).to.equal(undefined);
  });

  it("a file too short for one of its devices -> the others are well, and it is once it is whole", async () => {
    resize("shared", SIZE / 2);
    expect(await fixture.order("attach", "s1", 2)).to.equal("done");
    expect(await fixture.order("attach", "s2", 3)).to.equal("io_error");
    resize("shared", SIZE);
    await look("s2");
    expect(problem("s1"), "its own bytes are as they were").to.equal(undefined);
    expect(fixture.device("s1").replaced).to.equal(false);
    expect(await fixture.order("attach", "s2", 3)).to.equal("already");
    expect(problem("s2")).to.equal(undefined);
  });
});
