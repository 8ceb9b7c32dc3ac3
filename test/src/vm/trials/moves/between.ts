import { DEVICE_BYTES, specOf } from "@diskmesh/disk-agent/testing";
import type { DeviceId } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { DISK, HOLDER, KEY, nqns, STORAGE, specBetween, TwoHosts } from "../between-hosts.js";
import { BLOCK_BYTES, CheckedWriter } from "../checked-writer.js";
import { Devices } from "../device-mapper.js";
import { count } from "../tally.js";

const BLOCKS = 16;
const REST_MS = 20;

describe("a disk of the kernel engine in use", () => {
  it("moves from another host to its own and back, also through lives of its agent", async () => {
    await using devices = new Devices();
    const hosts = await TwoHosts.start(devices);
    const { port } = hosts;
    const there = (id: string, sessionNumber?: number) => ({
      ...(specBetween(port, 1, [id]).extents[0] ?? expect.fail("no extent")),
      ...(sessionNumber && { sessionNumber }),
    });
    const here = (id: string, sessionNumber: number) => ({
      ...(specOf(DISK, 1, [id]).extents[0] ?? expect.fail("no extent")),
      sessionNumber,
    });
    type Extent = ReturnType<typeof there>;
    const writer = await CheckedWriter.start(await hosts.publish(1, ["a", "d"]), BLOCKS, REST_MS);
    let revision = 0;
    const serve = async (first: Extent & { target?: Extent & { bytesPerSecond: number } }) => {
      revision += 1;
      const spec = { ...specBetween(port, 1, ["a", "d"]), revision };
      await hosts.holder.exports.serve({ ...spec, extents: [first, there("d")] });
    };
    const move = async (from: Extent, to: Extent, during: () => Promise<void>) => {
      await serve({ ...from, target: { ...to, bytesPerSecond: 0 } });
      await during();
      await writer.progress();
      await eventually(() => {
        const asked = { diskId: DISK, sessionNumber: 1, revision };
        const places = { source: { deviceId: from.deviceId }, target: { deviceId: to.deviceId } };
        expect(hosts.holder.exports.askMirror(asked, places, 0).answer).to.deep.equal({ is: "equal" });
      });
      await serve(to);
      await writer.progress();
      count("live moves between hosts");
    };
    await hosts.holder.open(DISK, 2, ["b"]);
    await move(there("a"), here("b", 2), () => hosts.restart(HOLDER));
    // The other part stays where it is.
    await hosts.storage.open("disk-2", 3, ["a"]);
    await writer.progress();
    const client = await hosts.use(hosts.holder.exports.find(DISK) ?? "");
    await client.write(DEVICE_BYTES, Buffer.alloc(BLOCK_BYTES, 7), { fua: true });
    expect((await client.read(DEVICE_BYTES, BLOCK_BYTES)).equals(Buffer.alloc(BLOCK_BYTES, 7))).to.equal(true);
    await client.disconnect();
    await hosts.storage.open(DISK, 4, ["a"], { holderHostId: HOLDER, sessionKey: KEY });
    await move(here("b", 2), there("a", 4), () => hosts.restart(STORAGE));
    await hosts.holder.open("disk-2", 5, ["b"]);
    await hosts.restart(HOLDER);
    await writer.progress();
    expect(writer.errors).to.deep.equal([]);
    await writer.stop();
    expect((await hosts.bytesOf("a")).length).to.equal(DEVICE_BYTES);
    expect(await writer.faults(`${hosts.storage.fixture.folder}/a`)).to.deep.equal([]);
    await hosts.holder.exports.end(DISK, 1);
    await hosts.storage.open("disk-2", 6, ["a", "d"] as DeviceId[]);
    await eventually(() => expect(nqns()).to.deep.equal({ served: [], connected: [] }));
  });
});
