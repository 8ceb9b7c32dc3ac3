import { linkSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";

const SIZE = 16 * 4096;

describe("several names of one file", () => {
  const names = ["file", "link", "hard"];
  let fixture: DeviceFixture;
  const useFixtureWith = (devices: ConstructorParameters<typeof DeviceFixture>[0]) => {
    fixture = new DeviceFixture(devices);
    const path = makeDeviceFile(fixture.folder, "file", SIZE);
    symlinkSync(path, join(fixture.folder, "link"));
    linkSync(path, join(fixture.folder, "hard"));
  };
  afterEach(() => fixture.stop());

  it("share one descriptor between disjoint devices, which is closed with the last of them", async () => {
    const part = SIZE / 4;
    useFixtureWith(names.map((file, index) => ({ id: file, file, offsetBytes: index * part, sizeBytes: part })));
    const orders = names.map((name) => fixture.order("attach", name, 1));
    expect(await Promise.all(orders)).to.deep.equal(["done", "done", "done"]);
    expect(fixture.files.openCount).to.equal(1);
    expect(await fixture.openSession("hard", 1)).to.equal("done");
    const data = Buffer.alloc(4096, 7);
    await fixture.device("hard").write(1, 0, data, { fua: true });
    expect(await fixture.order("detach", "file", 2)).to.equal("done");
    expect(await fixture.order("detach", "link", 2)).to.equal("done");
    expect(await fixture.device("hard").read(1, 0, 4096)).to.deep.equal(data);
    expect(await fixture.order("detach", "hard", 2)).to.equal("done");
    expect(fixture.files.openCount).to.equal(0);
    expect(await fixture.order("attach", "link", 3)).to.equal("done");
    expect(fixture.files.openCount).to.equal(1);
    fixture.device("link").detach();
    await eventually(() => fixture.files.openCount === 0);
  });

  for (const name of ["link", "hard"])
    it(`with overlapping devices, one by a ${name}, refuse the later one with both names until the other is gone`, async () => {
      useFixtureWith([
        { id: "whole", file: "file" },
        { id: "tail", file: name, offsetBytes: SIZE - 4096, sizeBytes: 4096 },
      ]);
      expect(await fixture.order("attach", "whole", 1)).to.equal("done");
      expect(await fixture.order("attach", "tail", 1)).to.equal("io_error");
      expect(fixture.device("tail").problem?.message)
        .to.match(/device tail, file .*lies on the same bytes as device whole, file/)
        .and.to.contain(name);
      expect(fixture.device("whole").attached).to.equal(true);
      fixture.device("tail").retry();
      await eventually(() => fixture.device("tail").failure !== undefined);
      expect(await fixture.order("detach", "whole", 2)).to.equal("done");
      fixture.device("tail").retry();
      expect(fixture.device("tail").problem?.level, "until it is found to be in order").to.equal("ERROR");
      await eventually(() => fixture.device("tail").attached);
      expect(fixture.device("tail").problem).to.equal(undefined);
      expect(fixture.files.openCount).to.equal(1);
      fixture.device("tail").detach();
      await eventually(() => fixture.files.openCount === 0);
    });

  it("opened and closed concurrently never have two descriptors, and leave none", async () => {
    const part = SIZE / 4;
    useFixtureWith(names.map((file, index) => ({ id: file, file, offsetBytes: index * part, sizeBytes: part })));
    for (let round = 0; round < 60; round += 1) {
      const device = fixture.device(names[round % 3] as string);
      if (device.wanted) device.detach();
      else device.attach();
      await fixture.files.look(fixture.device("file").config.path);
      for (const name of names) expect(fixture.device(name).failure, name).to.equal(undefined);
    }
    for (const name of names) fixture.device(name).attach();
    await eventually(() => names.every((name) => fixture.device(name).attached));
    expect(fixture.files.mostOpenCount).to.equal(1);
    for (const name of names) fixture.device(name).detach();
    await eventually(() => fixture.files.openCount === 0);
  });

  it("that change their file during an open are retried, and never mixed up", async () => {
    useFixtureWith([{ id: "file", file: "file" }]);
    fixture.files.opens.shut();
    const order = fixture.order("attach", "file", 1);
    await eventually(() => fixture.files.opens.arrivals === 1);
    writeFileSync(join(fixture.folder, "other"), Buffer.alloc(SIZE));
    renameSync(join(fixture.folder, "other"), join(fixture.folder, "file"));
    fixture.files.opens.open();
    expect(await order).to.equal("io_error");
    expect(fixture.device("file").problem?.message).to.match(/was replaced while it was opened/);
    expect(fixture.files.openCount).to.equal(0);
    expect(await fixture.order("attach", "file", 1)).to.equal("done");
    fixture.device("file").detach();
    await eventually(() => fixture.files.openCount === 0);
  });
});
