import { realpathSync } from "node:fs";
import { basename } from "node:path";
import { DEVICE_BYTES, EngineScene } from "@diskmesh/disk-agent/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { countersAt, Devices } from "./device-mapper.js";
import { call, makeDrives, unwind } from "./engine-drives.js";
import { count } from "./tally.js";

const BLOCK_BYTES = 4_096;
const BLOCKS = (2 * DEVICE_BYTES) / BLOCK_BYTES;
/** Requests of a test. `ROUNDS` repeats the test. */
const REQUESTS = 100 * BLOCKS;

describe("requests of a disk of the kernel engine", () => {
  it("are as many requests of its drives, and take no processor time of the agent", async () => {
    await using devices = new Devices();
    const { folder, drives } = await makeDrives(devices);
    const scene = new EngineScene("kernel", { folder });
    devices.later(() => unwind(scene));
    await scene.start();
    const path = realpathSync(await scene.publish("disk-1", 1, ["a", "b"]));
    const written = (...paths: string[]) => paths.reduce((sum, each) => sum + countersAt(basename(each)).writes, 0);
    const ofDrives = written(drives.a, drives.b);
    const ofDisk = written(path);
    const program = `for i in $(seq ${REQUESTS / BLOCKS}); do dd if=/dev/zero of=${path} bs=${BLOCK_BYTES} count=${BLOCKS} oflag=direct status=none || exit 1; done`;
    const running = call("sh", "-c", program);
    // The start of the program takes processor time of this process, which is the agent's.
    await eventually(() => written(path) > ofDisk);
    const before = process.cpuUsage();
    const measuredFrom = written(path);
    await running;
    const used = process.cpuUsage(before);
    count("requests beside which the agent's processor time was measured", written(path) - measuredFrom);
    count("requests of the disk", written(path) - ofDisk);
    count("requests of its drives", written(drives.a, drives.b) - ofDrives);
    count("us of processor time of the agent", used.user + used.system);
    expect(written(path) - ofDisk).to.equal(REQUESTS);
    expect(written(drives.a, drives.b) - ofDrives).to.equal(REQUESTS);
  });
});
