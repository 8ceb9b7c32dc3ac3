import { readdirSync, readFileSync, realpathSync } from "node:fs";
import { DEVICE_BYTES } from "@diskmesh/disk-agent/testing";
import { eventually } from "@diskmesh/testkit";
import { DISK, TwoHosts } from "./between-hosts.js";
import { Devices } from "./device-mapper.js";
import { call } from "./engine-drives.js";
import { count } from "./tally.js";

const BLOCK_BYTES = 4_096;
const BLOCKS = DEVICE_BYTES / BLOCK_BYTES;
/** Writes of the whole device between two looks at the processor. */
const PASSES = 20;
/** Comparisons of a test. `ROUNDS` repeats the test. */
const COMPARISONS = 10;
const PORT = "4499";
const NQN = "nqn.2026-11.io.example:by-hand";

/** Exports a drive to its own host by NVMe/TCP, in the way of the kernel's documentation. Returns the new device's path. */
async function exportByHand(devices: Devices): Promise<string> {
  const drive = await devices.drive(DEVICE_BYTES / 512);
  const make = `set -e; cd /sys/kernel/config/nvmet
mkdir -p subsystems/${NQN}/namespaces/1 ports/${PORT}
echo 1 > subsystems/${NQN}/attr_allow_any_host
echo ${drive} > subsystems/${NQN}/namespaces/1/device_path
echo 1 > subsystems/${NQN}/namespaces/1/enable
cd ports/${PORT}
echo tcp > addr_trtype; echo ipv4 > addr_adrfam; echo 127.0.0.1 > addr_traddr; echo ${PORT} > addr_trsvcid
ln -s ../../subsystems/${NQN} subsystems/${NQN}
echo transport=tcp,traddr=127.0.0.1,trsvcid=${PORT},nqn=${NQN} > /dev/nvme-fabrics`;
  const end = `cd /sys/kernel/config/nvmet
for each in /sys/class/nvme/nvme*; do read nqn < $each/subsysnqn; [ $nqn != ${NQN} ] || echo 1 > $each/delete_controller; done
rm -f ports/${PORT}/subsystems/${NQN}; rmdir ports/${PORT} subsystems/${NQN}/namespaces/1 subsystems/${NQN}`;
  devices.later(() => call("sh", "-c", end));
  await call("sh", "-c", make);
  const isByHand = (name: string) => readFileSync(`/sys/block/${name}/device/subsysnqn`, "utf8").trim() === NQN;
  return eventually(() => {
    const found = readdirSync("/sys/block").find((name) => /^nvme\d+n\d+$/.test(name) && isByHand(name));
    if (found === undefined) throw new Error("the kernel has no device of the export yet");
    return `/dev/${found}`;
  });
}

/** Returns the time in ms for which the processors of the machine worked since its start. */
function workedMs(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (
    readFileSync("/proc/stat", "utf8").split("\n")[0] ?? ""
  )
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return 10 * (user + nice + system + irq + softirq);
}

/** Returns the processor time in ms of writes of 4 KiB, one after the other. */
async function costOf(path: string, flag = "oflag=direct"): Promise<number> {
  const pass = `dd if=/dev/zero of=${path} bs=${BLOCK_BYTES} count=${BLOCKS} ${flag} status=none`;
  const before = workedMs();
  await call("sh", "-c", `for i in $(seq ${PASSES}); do ${pass} || exit 1; done`);
  return workedMs() - before;
}

describe("writes to a disk of the kernel engine on another host", () => {
  it("take processor time beside an NVMe/TCP export made by hand", async () => {
    await using devices = new Devices();
    const hosts = await TwoHosts.start(devices);
    const disk = realpathSync(await hosts.publish(1, ["a"]));
    const byHand = await exportByHand(devices);
    for (let comparison = 0; comparison < COMPARISONS; comparison++) {
      count("ms of processor time of writes to the disk", await costOf(disk));
      count("ms of processor time of writes to the export made by hand", await costOf(byHand));
      count("ms of processor time of the program alone", await costOf("/dev/null", ""));
      count("writes of each", PASSES * BLOCKS);
    }
    await hosts.holder.exports.drain(DISK, 1, () => {});
    await hosts.holder.exports.end(DISK, 1);
  });
});
