import { nameOfDisk } from "../../mesh/disk-names.js";
import { UsageError } from "../../output/exit-codes.js";
import { countOf, sizeBytesOf } from "../../output/values.js";
import { textOption } from "../action.js";
import { taskAction } from "../task-run.js";

const MAX_IOPS = 10 ** 12;
const MAX_BURST_SECONDS = 3_600;

export const limits = taskAction({
  usage: "limits <disk>",
  summary: "replace the I/O limits of a dynamic disk, by its name or CID, also while it is attached",
  options: [
    ["--read-iops <count>", "reads per second"],
    ["--write-iops <count>", "writes per second"],
    ["--read-rate <size>", "bytes read per second, such as 50MiB"],
    ["--write-rate <size>", "bytes written per second, such as 50MiB"],
    ["--burst <seconds>", "burst budget of an idle disk, in seconds"],
    ["--none", "lift all limits"],
  ],
  example: "diskmesh limits scratch --read-iops 500 --write-iops 500 --burst 10",
  start: async ({ mesh, options, args: [disk = ""] }) => {
    const given = (name: string) => textOption(options, name);
    const count = (name: string, flag: string, max = MAX_IOPS) =>
      given(name) === "" ? 0 : countOf(flag, given(name), max);
    const rate = (name: string) => (given(name) === "" ? 0 : sizeBytesOf(given(name)));
    const wanted = {
      readIops: count("readIops", "--read-iops"),
      writeIops: count("writeIops", "--write-iops"),
      readBytesPerSecond: rate("readRate"),
      writeBytesPerSecond: rate("writeRate"),
      burstSeconds: count("burst", "--burst", MAX_BURST_SECONDS),
    };
    const { burstSeconds: _, ...rates } = wanted;
    const isLimited = Object.values(rates).some((value) => value > 0);
    // A forgotten limit must not lift the others by mistake.
    if (isLimited === (options.none === true))
      throw new UsageError(
        isLimited ? "--none lifts all limits: leave the limits out" : "give a limit, or --none to lift all",
      );
    const diskName = await nameOfDisk(mesh, disk);
    return mesh.disks.setDynamicDiskLimits({ diskName, limits: wanted, wait: false });
  },
});
