import type { Device, Disk, Host } from "@diskmesh/api/registry";
import { quoted } from "@diskmesh/domain";
import { UsageError } from "../output/exit-codes.js";
import { short, troubleText } from "../output/output.js";
import type { Action, ActionCall } from "./action.js";

export const watch: Action = {
  usage: "watch <kind>",
  summary: "print a line for each host, device or disk (hosts, devices, disks) and for each change, until Ctrl-C",
  kinds: ["hosts", "devices", "disks"],
  example: "diskmesh watch devices",
  isOpenEnded: true,
  run: async (call) => {
    const [kind = ""] = call.args;
    const watches: Readonly<Record<string, (call: ActionCall) => Promise<void>>> = {
      hosts: watchHosts,
      devices: watchDevices,
      disks: watchDisks,
    };
    const chosen = Object.hasOwn(watches, kind) ? watches[kind] : undefined;
    if (chosen === undefined) throw new UsageError(`${quoted(kind)} is none of hosts, devices, disks`);
    await chosen(call).catch((error: unknown) => {
      // An interrupt is the only regular end of a watch.
      if (!call.signal.aborted) throw error;
    });
  },
};

async function watchHosts({ mesh, output, signal }: ActionCall): Promise<void> {
  for await (const { update } of mesh.registry.watchHosts({}, { signal })) {
    if (update?.$case === "host") output.item(update.value, hostText(update.value));
    if (update?.$case === "removedHostId") output.item({ removedHostId: update.value }, `${update.value} is gone`);
  }
}

async function watchDevices({ mesh, output, signal }: ActionCall): Promise<void> {
  for await (const { update } of mesh.registry.watchDevices({}, { signal })) {
    if (update?.$case === "device") output.item(update.value, deviceText(update.value));
    if (update?.$case === "removedDeviceId") output.item({ removedDeviceId: update.value }, `${update.value} is gone`);
  }
}

async function watchDisks({ mesh, output, signal }: ActionCall): Promise<void> {
  for await (const { update } of mesh.registry.watchDisks({}, { signal })) {
    if (update?.$case === "disk") output.item(update.value, diskText(update.value));
    if (update?.$case === "removedDiskId") output.item({ removedDiskId: update.value }, `${update.value} is gone`);
  }
}

const hostText = ({ hostId, state, trouble }: Host): string => words(hostId, short(state), troubleText(trouble));

const deviceText = ({ deviceId, attachState, health, deviceGeneration, diskId, diskCount, trouble }: Device): string =>
  words(
    deviceId,
    short(attachState),
    short(health),
    `generation ${deviceGeneration}`,
    diskCount > 1 ? `${diskCount} disks` : diskId,
    troubleText(trouble),
  );

const diskText = ({ diskId, health, publication, trouble }: Disk): string => {
  const place = publication === undefined ? "not published" : `${short(publication.state)} to ${publication.hostId}`;
  return words(diskId, short(health), place, troubleText(trouble));
};

const words = (...parts: readonly string[]): string => parts.filter(Boolean).join(" ");
