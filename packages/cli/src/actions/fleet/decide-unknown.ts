import { type Device, UnknownDiskVerdict } from "@diskmesh/api/registry";
import { named } from "../../output/values.js";
import type { Action } from "../action.js";

export const decideUnknown: Action = {
  usage: "decide-unknown <verdict> <device-ids...>",
  summary:
    "decide whose record of a device is right: the registry's, or the agent's, which names a disk unknown to the registry",
  kinds: ["agent", "registry"],
  options: [["--dry-run", "only show the effect"]],
  example: "diskmesh decide-unknown registry host-1-d1 --dry-run",
  run: async ({ mesh, output, args: [typed = "", ...deviceIds], options }) => {
    const verdict = named("verdict", UnknownDiskVerdict, typed);
    const dryRun = options.dryRun === true;
    const devices = await Promise.all(
      deviceIds.map(async (deviceId) => (await mesh.registry.getDevice({ deviceId })).device),
    );
    const answer = await mesh.fleet.decideUnknownDisks({ verdict, deviceIds, dryRun });
    const lines = devices.flatMap((device) =>
      device === undefined ? [] : `${device.deviceId}: ${effectOn(device, verdict, answer, dryRun)}`,
    );
    output.answer(answer, lines.join("\n"));
  },
};

/** Describes what the decision does to a device, or has done. */
function effectOn(
  { deviceId, diskId }: Device,
  verdict: UnknownDiskVerdict,
  { deviceIds, diskIds }: { readonly deviceIds: readonly string[]; readonly diskIds: readonly string[] },
  dryRun: boolean,
): string {
  if (!deviceIds.includes(deviceId)) return "nothing changes: it is not held by an unknown disk, or nothing is certain";
  const [becomes, loses, is] = dryRun ? ["would become", "would lose", "would be"] : ["became", "lost", "is"];
  if (verdict === UnknownDiskVerdict.AGENT)
    return diskId === ""
      ? `it ${becomes} a device of disk ${diskIds.join(" or ")}`
      : `disk ${diskId} ${loses} it; its data ${is} kept`;
  return diskId === ""
    ? `what the agent remembers on it ${is} erased, and the device used for new disks`
    : `it ${is} disk ${diskId}'s, with the data that is there`;
}
